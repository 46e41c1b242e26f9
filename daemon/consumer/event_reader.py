"""The port through which a projection reads events. ``topic_reader`` reads for one projection,
``shared.subscription`` together with others.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, Self

from daemon.consumer.settings import ReaderStatus
from handlers.events import Event
from state.errors import ConfigError
from state.event_log.positions import Position


@dataclass(frozen=True, slots=True)
class Passage:
    """Unix times at which the last event of a batch passed the steps before the projections."""

    relayed_s: float
    """The timestamp of its record in the topic."""
    read_s: float
    """Time of the record's decoding."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Events without omissions up to ``position``."""

    events: tuple[Event, ...]
    position: Position
    """The last event read. It comes after the last of ``events`` if others did not concern the reader's
    projection (``daemon.consumer.shared.subscription``).
    """
    caught_up: bool
    """Whether the topic ended after these events."""
    time_s: int | None = None
    """The time of the last event read; None if there was none."""
    sizes_bytes: tuple[int, ...] = ()
    """The length of each event's record."""
    passage: Passage | None = None
    """The passage of the last event; None if unknown, for example for an event read from the notification
    log.
    """


@dataclass(frozen=True, slots=True)
class Stages:
    """How long each stage of an event took, from the source to its effect, in seconds."""

    relay_s: float
    """From the event until its record was in the topic: up to a second too long, because event times are
    whole seconds.
    """
    read_s: float
    """From the topic until the record was decoded."""
    queue_s: float
    """From decoding until the start of the event's batch."""
    apply_s: float
    """From the start to the end of the event's batch."""

    @property
    def total_s(self) -> float:
        """The time from the source to the effect."""
        return self.relay_s + self.read_s + self.queue_s + self.apply_s

    @classmethod
    def of(cls, batch: Batch, began_s: float, ended_s: float) -> Self | None:
        """Return the stages of the last event of a batch; None if unknown."""
        if batch.passage is None:
            return None
        times_s = (
            batch.events[-1].time_s,
            batch.passage.relayed_s,
            batch.passage.read_s,
            began_s,
            ended_s,
        )
        return cls(*(round(max(0.0, end_s - start_s), 3) for start_s, end_s in pairwise(times_s)))


class EventReader(Protocol):
    """A projection's source of events. Only ``status`` and ``find_passed`` are thread-safe."""

    status: ReaderStatus

    @property
    def wakes(self) -> bool:
        """Whether the reader wakes the projection when there are events, so that ``read`` does not wait."""

    def find_passed(self) -> tuple[Position, int] | None:
        """Return the position, with its time, up to which nothing is left to apply; None if unknown."""

    def seek(self, position: Position) -> None:
        """Continue after ``position``; raise ConfigError, GapDetected, Transient."""

    def read(self, timeout_s: float) -> Batch:
        """Return the next events, after waiting up to ``timeout_s`` for the first. Raises ConfigError,
        GapDetected, Transient.
        """

    def acknowledge(self, position: Position) -> None:
        """Record that all events up to ``position`` are applied."""

    def close(self) -> None:
        """Release the resources for reading; ``seek`` may follow."""


def missing_event_ids(topic: str) -> ConfigError:
    """Return the error for a topic whose records lack the event ids that its reader needs."""
    return ConfigError(
        "the records of the topic have no event ids",
        topic=topic,
        hint="Relay the source with Tideline, or remove its catalog from the configuration.",
    )
