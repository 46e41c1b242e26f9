"""Topics in memory, with gaps in their offsets, and the parts of a reader that access Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from daemon.config.settings.clusters import RelayConfig
from daemon.consumer.fetcher import FetchResult
from daemon.consumer.seeker import SeekResult
from daemon.kafka.broker import TopicRecord
from daemon.kafka.offset_search import LocatedRecord, find_next, find_offset
from daemon.kafka.signatures import Signatures
from daemon.kafka.topic import Watermarks
from daemon.relay.publisher import RelaySettings
from daemon.sources.outbox import Outbox
from daemon.sources.unlogged_partitions import UnloggedPartitions
from handlers.decoding.header import peek_position
from handlers.decoding.records.record_writer import Record
from state.errors import BadInput, KafkaUnavailable
from state.event_log.positions import Position
from tests.builders.kafka.fake_log import ListedLog


RECORD_BYTES_MAX = 4096


def outbox(log: ListedLog, *, unlogged: UnloggedPartitions | None = None, **settings: object) -> Outbox:
    return Outbox(log.connect, relay_settings(**settings), hard_bytes_max=1 << 20, unlogged=unlogged)


def relay_settings(**settings: Any) -> RelaySettings:
    """Return the settings of a relay; those of the configuration and others are given alike."""
    values: dict[str, Any] = {"source": "src", "record_bytes_max": RECORD_BYTES_MAX} | settings
    section = {name: values.pop(name) for name in RelayConfig.model_fields if name in values}
    return RelaySettings(section=RelayConfig(**section), **values)


def records_of(log: ListedLog, first: int = 1, last: int | None = None) -> list[Record]:
    """Return the records that a relay writes for the events of ``log``."""
    return list(outbox(log).records(first, last or log.current_event_id()))


class ListedTopic:
    """One partition as a mapping from offsets to values; offsets without a value are markers or expired."""

    def __init__(self, records: Iterable[Record | bytes | None] = ()) -> None:
        self.values: dict[int, bytes] = {}
        self.headers: dict[int, tuple[tuple[str, bytes], ...]] = {}
        self.low = self.high = 0
        self.time_ms = 0
        """Timestamp of all records."""
        self.append(*records)

    def append(self, *records: Record | bytes | None) -> None:
        for record in records:
            value = record.value if isinstance(record, Record) else record
            if value is not None:
                self.values[self.high] = value
                self.headers[self.high] = record.headers if isinstance(record, Record) else ()
            self.high += 1

    def truncate(self, low: int) -> None:
        self.values = {offset: value for offset, value in self.values.items() if offset >= low}
        self.low, self.high = low, max(low, self.high)

    def recreate(self, *records: Record | bytes | None) -> None:
        self.values, self.low, self.high = {}, 0, 0
        self.append(*records)

    def watermarks(self) -> Watermarks:
        return Watermarks(self.low, self.high)

    def first_from(self, offset: int, end: int) -> LocatedRecord | None:
        for at in range(offset, end):
            try:
                place = peek_position(self.values.get(at, b""))
            except BadInput:
                continue
            return LocatedRecord(at, Position(*place), self.values[at])
        return None


class ListedSeeker:
    """Replaces ``daemon.consumer.seeker.Seeker``."""

    def __init__(
        self, topic: ListedTopic, *, offsets_are_ids: bool = False, signatures: Signatures | None = None
    ) -> None:
        self.topic = topic
        self.signatures = signatures
        self.offsets_are_ids = offsets_are_ids
        self.undecided = False

    def seek(self, position: Position) -> SeekResult:
        marks = self.topic.watermarks()
        offset = position.event_id if self.offsets_are_ids else find_offset(self.topic, position)
        return SeekResult(offset, marks.empty)

    def next_offset(self, position: Position) -> int | None:
        offset = None if self.offsets_are_ids else find_next(self.topic, position)
        if offset is None or self.signatures is None:
            return offset
        is_signed = self.signatures.are_valid(self.topic.values[offset], self.topic.headers[offset])
        return offset if is_signed else None

    def remember(self, position: Position, offset: int) -> None:
        assert self.offsets_are_ids or peek_position(self.topic.values[offset])[:2] == (
            position.event_id,
            position.part,
        )


class ListedFetcher:
    """Replaces ``daemon.consumer.fetcher.Fetcher``."""

    def __init__(self, topic: ListedTopic, offset: int) -> None:
        self.topic = topic
        self.offset = offset
        self.committed: list[int] = []
        self.closed = False

    # ARG002: required by the port; a list never waits
    def take(self, limit: int, timeout_s: float) -> FetchResult:  # noqa: ARG002
        assert not self.closed
        if not self.topic.low <= self.offset <= self.topic.high:
            return FetchResult(lost="Local: No offset to automatically reset to")
        records = tuple(self._records(limit))
        return FetchResult(records, ended=self.offset == self.topic.high)

    def commit(self, offset: int) -> None:
        self.committed.append(offset)

    def close(self) -> None:
        self.closed = True

    def _records(self, limit: int) -> Iterator[TopicRecord]:
        while self.offset < self.topic.high and limit > 0:
            value = self.topic.values.get(self.offset)
            self.offset += 1
            if value is not None:
                limit -= 1
                headers = self.topic.headers[self.offset - 1]
                yield TopicRecord(self.offset - 1, value, headers, time_ms=self.topic.time_ms)


class ListedLetters:
    """Replaces ``daemon.kafka.dead_letters.DeadLetterWriter``."""

    def __init__(self) -> None:
        self.put_in: list[tuple[TopicRecord, BadInput, int | None]] = []
        self.unavailable = False

    def put(self, record: TopicRecord, error: BadInput, event_id: int | None) -> None:
        if self.unavailable:
            raise KafkaUnavailable("cannot write a dead letter")
        self.put_in.append((record, error, event_id))
