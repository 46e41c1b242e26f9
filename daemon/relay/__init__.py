"""The relay: an outbox reader that turns a metastore's notification log into a Kafka topic.

The metastore writes its log in the database transaction of the change, so what committed cannot be missed and the log's order
is the commit order; the relay keeps both. It holds no truth of its own: it goes on behind the last record of the topic
(``resuming``), reads the log without a hole (``outbox``), and writes through an idempotent producer (``publisher``). Killed at
any moment and started again, it writes what is missing; what it writes twice, readers drop.

It never skips: a hole in the log, a metastore that went back in time, an event that the topic refuses end the loop with an
error that says so, and the supervisor decides. Whatever may pass (a restart of metastore or broker) ends it too; it is
started again with growing pauses.
"""
