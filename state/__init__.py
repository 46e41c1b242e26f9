"""Rules and memory: what Tideline knows and decides, as plain values and functions.

This package knows no Kafka, no metastore and no Spark, and does no input or output except through the store
port (``state.store``), so that every rule is tested without a server. See ``DESIGN.md`` beside this file.
"""
