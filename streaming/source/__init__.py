"""Reads raw events from a Kafka topic or a directory, and detects a replaced topic."""
