"""The partition index as a follower of the catalog, and the metastore's partition queries answered from it.

``partition_follower`` with ``follower_change`` keeps the index up to date. ``payloads`` stores whole partitions in few bytes,
``table_records`` stores one record for each indexed table. ``partition_queries`` answers queries, ``partition_drift`` compares the
index with the source.
"""
