"""The loop of one projection: open, seek, then read and apply until told to stop.

Whatever goes wrong ends the loop with the error; the supervisor starts it again, and ``open`` then tells from where. So there
is one way to recover, and it is the same as the way to start.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from daemon.consumer.projection import ProjectionStatus
from state.errors import Inconsistent


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.consumer.projection import Projection
    from daemon.consumer.reading import Batch, TopicReader
    from daemon.process.heartbeat import Heartbeat
    from state.positions import Position


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
