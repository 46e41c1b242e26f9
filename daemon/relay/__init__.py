"""The relay: an outbox reader that publishes a metastore's notification log to a Kafka topic.

The metastore writes its log in the database transaction of the change, so the log is complete and in commit
order, and the relay preserves both. It continues after the last record of the topic (``start_position``),
reads the log without gaps (``sources.outbox``), and writes through an idempotent producer (``publisher``).
After a kill at any point it writes the missing records; readers drop records that it writes twice.

The relay never skips events. A gap in the log, a restored metastore, or an event that the topic refuses ends
the loop with an error, and the supervisor decides what follows. Transient errors (a restart of metastore or
broker) also end the loop, which is then restarted with backoff.
"""
