"""Settings and status of a reader of the topic, and the ports that it uses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from handlers.decoding.messages import DEFAULT_LIMITS, Limits


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.kafka.broker import TopicRecord
    from daemon.kafka.signatures import Signatures
    from handlers.decoding.decoder import Format
    from handlers.decoding.records.record_writer import Record
    from state.errors import BadInput
    from state.event_log.positions import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """Settings of one projection's reader."""

    group: str
    """Consumer group under which offsets are visible to monitoring tools. Tideline never reads them."""
    format: Format | Literal["auto"]
    needs_event_ids: bool = False
    """Whether to refuse a topic without event ids: the reader compares its position with ids of the
    metastore.
    """
    limits: Limits = field(default=DEFAULT_LIMITS)
    signatures: Signatures | None = None
    """If given, records without a valid signature are foreign."""
    batch_events: int = 500
    """Events passed to a projection at once: one transaction of its store."""
    batch_bytes: int = 8 * 1024 * 1024
    """Length of a batch's records; once reached, the batch ends. Decoded events take many times as much
    memory.
    """
    queue_records: int = 2_000
    queue_bytes: int = 32 * 1024 * 1024
    """Limits of fetched but unread records. Above them the partition pauses until the reader has taken half
    of them.
    """
    commit_s: float = 5.0
    """How often to commit the offset for information."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingSettings:
    """Settings of a source's shared reader (``daemon.consumer.shared.reader``)."""

    window_events: int = 4_000
    window_bytes: int = 16 * 1024 * 1024
    """Limits of the last events kept for projections that join, by number and length of records."""
    backlog_events: int = 4_000
    backlog_bytes: int = 24 * 1024 * 1024
    """Limits of the events that wait for one projection. One that exceeds them leaves the shared reader.
    Reading pauses while half of them wait for every projection."""
    backlogs_bytes: int = 64 * 1024 * 1024
    """Limit of the events that wait for all projections together. Above it, the projection with the most
    events leaves."""
    ahead_events: int = 20_000
    """A projection that is further ahead moves the shared reader on."""
    start_s: float = 30.0
    """How long a projection waits for the start of the shared reader, before it reads on its own."""
    wait_s: float = 30.0
    """How long a projection that is behind waits for others, before it reads on its own."""
    stuck_s: float = 60.0
    """A member leaves a shared reader that has not read for this time."""
    failed_s: float = 1.0
    """Pause before the shared reader starts again after a failure."""


@dataclass(frozen=True, slots=True)
class ReaderStatus:
    """Status of a reader. Immutable, because other threads read it."""

    topic: str
    position: Position | None = None
    """The last delivered event."""
    offset: int | None = None
    """The next offset to read."""
    caught_up: bool = False
    """Whether the last read reached the end of the topic."""
    events: int = 0
    duplicates: int = 0
    filled: int = 0
    """Events that the topic had lost and the notification log still had."""
    searches: int = 0
    """Searches of the position after the topic changed (truncated or recreated)."""
    dead_letters: int = 0
    unknown: int = 0
    """Events of types that this version does not know."""
    foreign: int = 0
    """Dead letters without a valid signature, or that the source's notification log contradicts."""

    def add_counts(self, later: ReaderStatus, earlier: ReaderStatus) -> ReaderStatus:
        """Return this status plus the counts of another reader between ``earlier`` and ``later``."""
        return replace(
            self,
            events=self.events + later.events - earlier.events,
            duplicates=self.duplicates + later.duplicates - earlier.duplicates,
            filled=self.filled + later.filled - earlier.filled,
            searches=self.searches + later.searches - earlier.searches,
            dead_letters=self.dead_letters + later.dead_letters - earlier.dead_letters,
            unknown=self.unknown + later.unknown - earlier.unknown,
            foreign=self.foreign + later.foreign - earlier.foreign,
        )


class GapFiller(Protocol):
    """Reads events that the topic has lost; the relay's ``Outbox`` is one."""

    def current_event_id(self) -> int:
        """Return the id of the source's newest event."""

    def records(self, first: int, last: int, *, is_partly_read: bool = False) -> Iterator[Record]:
        """Yield the records of events ``first`` to ``last`` as the relay would write them.

        ``is_partly_read`` says that the reader already has some parts of the first event; the source may then
        complete it with other records. Raises GapDetected, Transient.
        """

    def close(self) -> None:
        """Release connections; the next use opens them again."""


class DeadLetterSink(Protocol):
    """Destination of undecodable records; see ``daemon.kafka.dead_letters``."""

    def put(self, record: TopicRecord, error: BadInput, event_id: int | None) -> None:
        """Store ``record`` durably. Raises KafkaUnavailable."""
