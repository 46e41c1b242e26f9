"""The partition index as a follower of the catalog, and as its readers see it.

``partition_follower`` with ``follower_change`` keeps the index up to date. ``payloads`` stores whole
partitions in few bytes, ``payload_reader`` and ``partition_bytes`` read them. ``table_records`` stores one
record for each indexed table. ``partition_snapshot`` opens the index for readers, ``partition_drift``
compares it with the source.
"""
