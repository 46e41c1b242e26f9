"""A typed client of the Hive metastore's Thrift interface. See ``DESIGN.md``."""
