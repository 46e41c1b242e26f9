"""A relay and readers on a real broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from daemon.consumer.projection import WAIT_S
from daemon.consumer.settings import ConsumerSettings
from daemon.consumer.topic_reader import TopicReader
from daemon.kafka.broker import BrokerSettings
from daemon.kafka.dead_letters import DeadLetterWriter, dead_letter_topic
from daemon.kafka.offset_search import LocatedRecord, OffsetReader
from daemon.kafka.topic import PARTITION, Topic, TopicSettings
from daemon.relay.loop import RelayLoop
from handlers.events import Event
from handlers.failures import TableFailure
from state.event_log.positions import Position
from state.store.memory import MemoryStore
from tests.builders.kafka.fake_log import Line, ListedLog
from tests.builders.kafka.fake_topics import relay_settings


DEADLINE_S = 120.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Poll until the condition holds; the time depends on a real server."""
    deadline = time.monotonic() + DEADLINE_S
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        pause.wait(0.02)


class Stream:
    """The topic of one source on a broker, with the log that is relayed into it."""

    def __init__(self, bootstrap: str, name: str, *, timeout_s: float = 10.0, **topic: Any) -> None:
        self.broker = BrokerSettings(bootstrap, timeout_s=timeout_s)
        self.topic = Topic(self.broker, TopicSettings(name, **topic))
        self.log = ListedLog()
        self.store = MemoryStore()
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    @property
    def name(self) -> str:
        return self.topic.name

    def relay(self, **settings: Any) -> RelayLoop:
        values = relay_settings(**{"start": "earliest"} | settings)
        return RelayLoop(self.broker, self.topic, self.log.connect, self.store, values)

    def relay_all(self, **settings: Any) -> RelayLoop:
        """Run a relay until it has relayed the whole log."""
        relay = self.relay(**settings)
        last = self.log.current_event_id()
        relay.run(Line(until=lambda: (relay.status.relayed_event_id or 0) >= last))
        return relay

    @contextmanager
    def relaying(self, **settings: Any) -> Iterator[RelayLoop]:
        """A relay in a thread."""
        relay, line = self.relay(**settings), Line()
        thread = threading.Thread(target=relay.run, args=(line,))
        thread.start()
        try:
            yield relay
        finally:
            line.stopping.set()
            thread.join()

    def dead_letters(self, reader: str = "p") -> DeadLetterWriter:
        settings = dead_letter_topic(
            self.name + ".dead", message_bytes_max=self.topic.settings.message_bytes_max
        )
        return DeadLetterWriter(self.broker, settings, origin=self.name, reader=reader)

    def reader(self, *, filler: Any = None, **settings: Any) -> TopicReader:
        values = ConsumerSettings(**{"group": f"{self.name}-group", "format": "auto"} | settings)
        return TopicReader(self.broker, self.topic, values, self.dead_letters(), filler)

    def produce(self, values: Iterable[bytes | None]) -> None:
        """Write records as any producer could."""
        producer = Producer(
            {"bootstrap.servers": self.broker.bootstrap, "queue.buffering.max.messages": 1_000_000}
        )
        for value in values:
            producer.produce(self.name, value=value, partition=PARTITION)
        assert producer.flush(DEADLINE_S) == 0
        producer.close()

    def markers(self, count: int) -> None:
        """Write ``count`` transaction markers, which are offsets without records."""
        producer = Producer(
            {"bootstrap.servers": self.broker.bootstrap, "transactional.id": f"{self.name}-markers"}
        )
        producer.init_transactions(DEADLINE_S)
        for _ in range(count):
            producer.begin_transaction()
            producer.produce(self.name, value=b"never seen", partition=PARTITION)
            producer.flush(DEADLINE_S)
            producer.abort_transaction(DEADLINE_S)
        producer.close()

    def truncate(self, offset: int) -> None:
        """Delete records as retention does."""
        place = TopicPartition(self.name, PARTITION, offset)
        for answer in self._admin.delete_records([place]).values():
            answer.result(DEADLINE_S)

    def recreate(self) -> None:
        self.delete()
        wait_until(self._created, "the topic can be created again")

    def delete(self) -> None:
        for answer in self._admin.delete_topics([self.name], operation_timeout=DEADLINE_S).values():
            answer.result(DEADLINE_S)

    def contents(self) -> list[LocatedRecord]:
        """Return all records of the topic that are events."""
        found: list[LocatedRecord] = []
        with OffsetReader(self.broker, self.name) as probe:
            marks = probe.watermarks()
            at = marks.low
            while (record := probe.first_from(at, marks.high)) is not None:
                found.append(record)
                at = record.offset + 1
        return found

    def _created(self) -> bool:
        return self.topic.ensure()


def drain(reader: TopicReader, after: Position) -> list[Event]:
    """Read the topic after ``after`` to its end, and close the reader."""
    reader.seek(after)
    try:
        return drain_on(reader)
    finally:
        reader.close()


def drain_on(reader: TopicReader, until: int | None = None) -> list[Event]:
    """Continue reading to the end of the topic, or to an event."""
    events: list[Event] = []
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        batch = reader.read(0.2)
        events.extend(batch.events)
        if (until is None and batch.caught_up) or (until is not None and batch.position.event_id >= until):
            return events
    raise AssertionError("the reader does not come to the end")


def run_in_turns(rests: Iterable[float], stopping: threading.Event) -> None:
    """Run a loop as the supervisor does that has its own thread, and wake it often."""
    for rest_s in rests:
        stopping.wait(min(rest_s, 0.05))


class Collecting:
    """A projection that records the events it receives."""

    name = "p"
    source = "src"

    def __init__(self, position: Position | None = None) -> None:
        self.position = position or Position(0)
        self.events: list[Event] = []
        self.gate = threading.Event()
        self.gate.set()
        self.settled = 0

    def prepare(self) -> Iterator[float]:
        yield from ()

    def open(self) -> Position:
        return self.position

    def apply(self, events: Iterable[Event]) -> Position:
        assert self.gate.wait(DEADLINE_S)
        self.events.extend(events)
        last = self.events[-1]
        self.position = Position(last.event_id, last.part, last.parts)
        return self.position

    def skip(self, position: Position, time_s: int) -> None:
        assert time_s > 0
        self.position = position

    def settle(self) -> float:
        self.settled += 1
        return WAIT_S

    def hold(self) -> Iterator[float]:
        yield from ()

    def failures(self) -> tuple[TableFailure, ...]:
        """Return nothing."""
        return ()

    def quarantined(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        self.events.clear()
