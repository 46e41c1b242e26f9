"""Indexed tables, filters with a known answer, and the contract that the index and the metastore share."""
