"""Where raw events come from: a Kafka topic or a directory."""
