"""Replication: replays the events of a source as metastore calls and file copies on a target.
See ``DESIGN.md``.
"""
