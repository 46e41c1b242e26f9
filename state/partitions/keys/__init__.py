"""Partitions as sortable keys.

Each module imports only those before it: ``column_types``, ``binary_sortable`` (Hive's encoding of a value),
``values`` (from the text of a partition value to its typed value), ``partition_key`` (the whole key, and
partition names).
"""
