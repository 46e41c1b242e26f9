"""Transactions of the source as replication sees them: write-id lists, and what to remember until a commit or an abort.

Rules only: nothing here calls a metastore or moves a file.
"""
