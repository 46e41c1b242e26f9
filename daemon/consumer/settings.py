"""What the consumer can be told, what it tells about itself, and what it needs of others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from handlers.decoding.limits import DEFAULT_LIMITS, Limits


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.kafka.broker import TopicRecord
    from handlers.decoding.decoder import Format
    from handlers.decoding.encoder import Record
    from state.errors import BadInput
    from state.positions import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """One projection's reader."""

    group: str
    """Consumer group whose offsets are committed for lag tools to look at. Nothing is ever read back from it."""
    format: Format | Literal["auto"] = "auto"
    limits: Limits = field(default=DEFAULT_LIMITS)
    batch_events: int = 500
    """Events handed to a projection at once: one transaction of its store."""
    queue_records: int = 2_000
    queue_bytes: int = 32 * 1024 * 1024
    """What may lie fetched but unread; above it the partition is paused until half of it has been taken."""
    commit_s: float = 5.0
    """How often the offset is committed for information."""


@dataclass(frozen=True, slots=True)
class ReaderStatus:
    """What a reader tells about itself; read by other threads, so always a whole new value."""

    topic: str
    position: Position | None = None
    """The last event handed out."""
    offset: int | None = None
    """The next offset to be read."""
    caught_up: bool = False
    """Whether the end of the topic was reached with the last read."""
    events: int = 0
    duplicates: int = 0
    filled: int = 0
    """Events that the topic had lost and the notification log still had."""
    searches: int = 0
    """How often the place in the topic had to be searched anew (truncated, recreated)."""
    dead_letters: int = 0
    unknown: int = 0
    """Events of types that this version does not know."""


class GapFiller(Protocol):
    """Where events are read that the topic has lost; the relay's ``Outbox`` is one."""

    def current_event_id(self) -> int:
        """Return the id of the source's newest event."""

    def records(self, first: int, last: int) -> Iterator[Record]:
        """Yield the records of events ``first`` to ``last`` as the relay would write them; raise GapDetected, Transient."""

    def close(self) -> None:
        """Release connections; they are made anew when needed."""


class DeadLetterSink(Protocol):
    """Where records go that cannot be used; see ``daemon.kafka.dead_letters``."""

    def put(self, record: TopicRecord, error: BadInput, event_id: int | None) -> None:
        """Keep ``record``; it is safe when this returns. Raises KafkaUnavailable."""
