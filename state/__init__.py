"""Rules and memory, as plain values and functions.

This package imports no Kafka, metastore or Spark library. Its only input and output is the store port
(``state.store``), which lets tests run every rule without a server. See ``DESIGN.md`` in this directory.
"""
