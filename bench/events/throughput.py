"""Cases of relay and decoding: from the notification log to a real topic, and from the topic to events.

The rates include the broker's share of the same cores. ``relay_metastore`` reads a real metastore, whose
responses take most of the time, so the case has no limit.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final

from bench.events.environment import make_name, say
from bench.events.recorded_log import RecordedLog
from bench.report import Row, row
from daemon.config.settings.clusters import RelayConfig
from daemon.consumer.settings import ConsumerSettings
from daemon.consumer.topic_reader import TopicReader
from daemon.kafka.broker import BrokerSettings
from daemon.kafka.dead_letters import DeadLetterWriter, dead_letter_topic
from daemon.kafka.topic import Topic, TopicSettings
from daemon.relay.loop import RelayLoop
from daemon.relay.publisher import RelaySettings
from daemon.sources.log_connections import Connect
from daemon.sources.outbox import build_outbox
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import Endpoints
from handlers.decoding.decoder import decode
from state.event_log.positions import Position
from state.store.memory import MemoryStore


REPEATS: Final = 3
ABORTS_PER_OPEN: Final = 100


def cases(endpoints: Endpoints, *, quick: bool) -> Iterator[Row]:
    size = 10_000 if quick else 50_000
    broker = BrokerSettings(endpoints.kafka)
    yield from measure_relay_and_decode(broker, RecordedLog(size), size)
    yield measure_relay_of_metastore(broker, endpoints.source.metastore, 1_000 if quick else 3_000)


def measure_relay_and_decode(broker: BrokerSettings, log: RecordedLog, size: int) -> Iterator[Row]:
    """Measure relaying the log to topics, reading the last topic, and decoding without a topic."""
    say(f"relay: {size} recorded events, {REPEATS} times")
    topics = [Topic(broker, TopicSettings(make_name("relay"))) for _ in range(REPEATS)]
    relayed = [measure_relay(broker, topic, log.connect, 0, size) for topic in topics]
    yield row("relay", statistics.median(relayed), "events/s", at_least=20_000)
    say("decode: the same, out of the topic")
    read = [measure_read(broker, topics[-1], size) for _ in range(REPEATS)]
    yield row("decode", statistics.median(read), "events/s", at_least=20_000)
    decoded = [measure_decode(topics[-1], log) for _ in range(REPEATS)]
    yield row("decode_only", statistics.median(decoded), "events/s", at_least=20_000)


def measure_relay(broker: BrokerSettings, topic: Topic, connect: Connect, after: int, last: int) -> float:
    """Return the events per second from the first read to the last acknowledgement, without the creation of
    the topic.
    """
    topic.ensure()
    relay = RelayLoop(
        broker,
        topic,
        connect,
        MemoryStore(),
        RelaySettings(source="bench", section=RelayConfig(start=after + 1)),
    )

    def done() -> bool:
        return (relay.status.relayed_event_id or 0) >= last

    heartbeat = _TimedHeartbeat(done)
    relay.run(heartbeat)
    return (last - after) / (heartbeat.done_s - heartbeat.began_s)


class _TimedHeartbeat:
    """Stops the relay when ``done`` returns True, and records when the relay began to read and when it was
    done.

    The following close of the producer is not measured.
    """

    def __init__(self, done: Callable[[], bool]) -> None:
        self.stopping = threading.Event()
        self.began_s = self.done_s = 0.0
        self._done = done

    def wake(self) -> None:
        """Do nothing, because a relay does not run in turns."""

    def following(self) -> None:
        self.began_s = time.perf_counter()

    def beat(self) -> None:
        if self._done():
            self.stopping.set()
        if self.stopping.is_set() and not self.done_s:
            self.done_s = time.perf_counter()

    def answered(self) -> None:
        """Do the same as ``beat``."""
        self.beat()

    def progress(self) -> None:
        self.beat()


def measure_read(broker: BrokerSettings, topic: Topic, size: int) -> float:
    """Return events per second from the first read to the last event, without the search for the offset."""
    letters = DeadLetterWriter(
        broker,
        dead_letter_topic(f"{topic.name}.dead", message_bytes_max=topic.settings.message_bytes_max),
        origin=topic.name,
        reader="bench",
    )
    with closing(
        TopicReader(broker, topic, ConsumerSettings(group="bench", format="auto"), letters)
    ) as reader:
        reader.seek(Position(0))
        began_s = time.perf_counter()
        while reader.read(1.0).position.applied_event_id < size:
            pass
        seconds = time.perf_counter() - began_s
    assert reader.status.dead_letters == reader.status.unknown == 0
    return size / seconds


def measure_decode(topic: Topic, log: RecordedLog) -> float:
    """Return events per second of the decoder alone, for the records of the first 10,000 events."""
    outbox = build_outbox(log.connect, RelaySettings(source="bench"), topic)
    records = list(outbox.records(1, 10_000))
    began_s = time.perf_counter()
    for record in records:
        decode(record.value, record.headers)
    return 10_000 / (time.perf_counter() - began_s)


def measure_relay_of_metastore(broker: BrokerSettings, uri: str, size: int) -> Row:
    """Measure relaying real events of a real metastore: transactions that are opened by the hundred and
    aborted one by one.
    """
    say(f"relay_metastore: making {size} events")
    with WritingMetastore(uri) as metastore:
        after = metastore.current_event_id()
        while metastore.current_event_id() - after < size:
            for txn_id in metastore.open_txns(ABORTS_PER_OPEN):
                metastore.abort_txn(txn_id)
        last = metastore.current_event_id()
    rates = [
        measure_relay(
            broker,
            Topic(broker, TopicSettings(make_name("real"))),
            lambda: WritingMetastore(uri),
            after,
            last,
        )
        for _ in range(REPEATS)
    ]
    return row("relay_metastore", statistics.median(rates), "events/s")
