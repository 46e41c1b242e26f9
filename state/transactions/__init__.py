"""Transactions of the source as replication sees them: valid write-id lists, and the write-id mapping.

Rules only: nothing here calls a metastore or moves a file. Three modules are for callers:
``write_id_mapping`` (replication's memory of a transaction until its commit or abort), ``valid_write_ids``
(the rows of a table that a reader sees) and ``acid_directories`` (the directories that contain them). The
others are the mapping's parts: ``open_transactions`` (values), ``mapping_entries`` (consistent in-memory
entries) and ``records`` (keys and values in the store).
"""
