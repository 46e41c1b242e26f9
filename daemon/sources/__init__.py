"""A configured source: its metastore, its notification log, its topic, and the reader of the topic."""
