"""The flat table in a metastore: its columns, parameters and hourly partitions. See ``DESIGN.md``."""
