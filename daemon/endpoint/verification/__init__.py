"""Answers of the index that are compared with those of the metastore, and the tables that differ."""
