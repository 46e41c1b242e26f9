"""Partitions as sortable keys: column types, Hive's BinarySortable form, partition values and the key itself."""
