"""Compares a sample of the answers from the index with the metastore's, and forwards the calls of tables that differ."""
