"""Transactions of the source as replication sees them: valid write-id lists, and the write-id mapping.

Rules only: nothing here calls a metastore or moves a file. Three modules are meant for callers:
``write_id_mapping`` (what replication remembers of a transaction until its commit or abort),
``valid_write_ids`` (which rows of a table a reader sees) and ``acid_directories`` (which directories contain
them). The others are the mapping's parts: ``open_transactions`` (values), ``mapping_entries`` (consistent
in-memory entries) and ``records`` (keys and values in the store).
"""
