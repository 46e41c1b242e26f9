"""Kafka: connection settings, the topic of a source, the search for an offset, and dead letters."""
