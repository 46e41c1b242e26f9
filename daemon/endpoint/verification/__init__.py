"""Answers of the index compared with those of the metastore, and the tables that differ."""
