"""Flat event tables on Spark, and beside them the key log and query mining,
which need no Spark. See ``DESIGN.md``.
"""
