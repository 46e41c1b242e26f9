"""Replay: events of the source turned into calls and files on the target. See ``DESIGN.md`` beside this file."""
