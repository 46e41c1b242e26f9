"""Rules and memory: what Tideline knows and decides, as plain values and functions.

This package imports no Kafka, metastore or Spark library. Its only input and output is the store port
(``state.store``), so every rule can be tested without a server. See ``DESIGN.md`` in this directory.
"""
