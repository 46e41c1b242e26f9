"""The Thrift structs of the Hive metastore, typed: a superset of Hive 2.3 to 4.2. See ``DESIGN.md``."""
