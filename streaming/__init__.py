"""Flat event tables on Spark, and the key log and query mining, which need no Spark. See ``DESIGN.md``."""
