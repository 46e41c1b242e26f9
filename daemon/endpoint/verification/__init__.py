"""Compares answers of the index with those of the metastore, and keeps the tables that differ."""
