"""What the consumer drives: one projection of the topic, with its own position, state file and failure domain.

The consumer decodes, drops duplicates and proves contiguity; a projection only ever sees events in order, each once per
process. It owns its store, and commits its position in the same store transaction as the effects of the events, so after a
crash it is handed again what it had not yet recorded: ``apply`` is idempotent.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from state.errors import Inconsistent


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.consumer.topic_reader import Batch, TopicReader
    from daemon.process.heartbeat import Heartbeat
    from handlers.events import Event
    from state.positions import Position


@dataclass(frozen=True, slots=True)
class ProjectionStatus:
    """What a projection tells about itself; read by other threads, so always a whole new value."""

    name: str
    source: str
    state: str
    """``starting``, ``following``, ``backing-off``, ``stopped`` or ``failed``."""
    position: Position | None
    applied_time_s: int | None
    """Event time of the last applied event, for the lag in seconds."""
    quarantined: Sequence[str] = ()
    problem: str | None = None


class Projection(Protocol):
    """One independent reader of a source's events."""

    @property
    def name(self) -> str:
        """A stable name, unique in the process: label of metrics, name of the state file."""

    @property
    def source(self) -> str:
        """The source whose topic it reads."""

    def open(self) -> Position:
        """Open the state and return the position to continue from.

        Called at every (re)start, so it also undoes what a failed ``apply`` left in memory. Raises ConfigError where the
        projection was never started (no position yet) and cannot choose one itself.
        """

    def apply(self, events: Sequence[Event]) -> Position:
        """Apply ``events`` in order and return the new position, which is durable by then.

        May apply a leading part only and raise: what was recorded counts, the rest is handed in again after a restart.
        """

    def settle(self) -> None:
        """Do what can wait until there is nothing to apply; called again and again while that is so, hence cheap."""

    def quarantined(self) -> Sequence[str]:
        """Return the tables that are not followed any more, as ``db.table``."""

    def close(self) -> None:
        """Release the store and connections; callable in any state."""


_WAIT_S: Final = 0.5
"""How long one read waits: the longest time that a stop goes unseen while there is nothing to apply."""


def follow(
    projection: Projection,
    reader: TopicReader,
    heartbeat: Heartbeat,
    report: Callable[[ProjectionStatus], None],
) -> None:
    """Drive ``projection`` until ``heartbeat`` says stop; ``report`` is told of every turn.

    Raises what ``projection`` and ``reader`` raise. Does not close the projection: its state is the caller's to release.
    """
    status = ProjectionStatus(projection.name, projection.source, "starting", None, None)
    report(status)
    with closing(reader):
        position = projection.open()
        reader.seek(position)
        heartbeat.following()
        status = replace(status, state="following", position=position, quarantined=projection.quarantined())
        while not heartbeat.stopping.is_set():
            report(status)
            batch = reader.read(_WAIT_S)
            if batch.events:
                status = _applied(projection, reader, batch, status)
                heartbeat.progress()
            else:
                projection.settle()
                heartbeat.beat()
    report(replace(status, state="stopped"))


def _applied(
    projection: Projection, reader: TopicReader, batch: Batch, status: ProjectionStatus
) -> ProjectionStatus:
    position = projection.apply(batch.events)
    _require_all(position, batch, projection.name)
    reader.applied(position)
    return replace(
        status,
        position=position,
        applied_time_s=batch.events[-1].time_s,
        quarantined=projection.quarantined(),
    )


def _require_all(position: Position, batch: Batch, name: str) -> None:
    """A projection that returns without an error has applied everything; a silent rest would never be handed in again."""
    if position != batch.position:
        raise Inconsistent(
            "the projection stands elsewhere than the events it was given",
            projection=name,
            position=str(position),
            given=str(batch.position),
        )
