"""Servers beside Hive: Kafka, HBase, and the databases of the key log."""
