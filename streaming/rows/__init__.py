"""Compares rows of Hive tables through Spark, by their number and a hash that ignores their order."""
