"""Catalogs of a metastore or of a source in memory, random changes, and the naive model of covers."""
