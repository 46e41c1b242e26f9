"""Raw events from a Kafka topic or a directory, and the detection of a topic that was replaced."""
