"""Servers other than Hive: Kafka, HBase, and the databases of the key log."""
