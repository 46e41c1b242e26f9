"""Settings and status of a relay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from daemon.sources.outgoing_events import OutboxSettings


if TYPE_CHECKING:
    from state.positions import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings(OutboxSettings):
    """One source's relay: the section of the configuration, and what only tests vary."""

    check_s: float = 1.0
    """How often the relay compares its position with the metastore's current id."""
    linger_ms: int = 5
    compression: str = "lz4"
    delivery_timeout_s: float = 60.0
    """How long the producer retries on its own; then the relay restarts from the end of the topic."""
    store_s: float = 5.0
    """How often the position is stored. It is used only if the topic is empty, and may lag."""


@dataclass(frozen=True, slots=True)
class RelayStatus:
    """Status of a relay. Immutable, because other threads read it."""

    source: str
    topic: str
    state: str = "starting"
    """``starting``, ``following``, ``stopped`` or ``failed``; the supervisor decides about restarts."""
    relayed: Position | None = None
    """The last record that Kafka acknowledged."""
    relayed_time_s: int | None = None
    """Event time of the last relayed event, epoch seconds."""
    source_event_id: int | None = None
    """The metastore's current event id, as last read."""
    source_read_s: float | None = None
    """Unix time at which it was read."""
    events: int = 0
    records: int = 0
    size_bytes: int = 0
    commits_with_writes: int = 0
    commits_without_writes: int = 0
    """Commits with write ids but without write events. Some DDL has none; if all commits have none, the writers run with
    ``hive.metastore.dml.events=false``, and their writes cannot be replicated."""
    unread: int = 0
    """Events, and write events of commits, that the metastore could not return; the records say so."""
    listed: int = 0
    """Partitions that Hive left out of the write events, and whose files the relay listed."""
    unlisted: int = 0
    """Partitions that the relay could not list, so that replicas do it."""
    gaps: int = 0
    errors: int = 0
    problem: str | None = None

    @property
    def lag_events(self) -> int | None:
        """Events in the source's log that are not in the topic yet; None until both ends are known."""
        if self.relayed is None or self.source_event_id is None:
            return None
        return max(0, self.source_event_id - self.relayed.applied_event_id)
