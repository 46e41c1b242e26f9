"""Scope and form of a policy's replication: its databases and tables, kinds that cannot be replicated, and
names in events.
"""
