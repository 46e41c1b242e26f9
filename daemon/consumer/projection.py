"""The port of a projection, and the loop that opens it, seeks its position, and passes it events.

``follow`` is one run of the loop. ``ProjectionLoop`` keeps the projection and its reader over several runs.

A projection is a reader of the topic with its own position, state file and failure domain.

The consumer decodes, drops duplicates and proves contiguity, so a projection receives each event once per
run, in order. It owns its store, and commits its position in the same store transaction as the effects of the
events. After a crash, it receives all events after the recorded position again, so ``apply`` is idempotent.

Every error ends the loop. The supervisor starts it again, and ``open`` returns the position to continue from.
Recovery is therefore the same as a normal start.

The loop runs in turns (``daemon.process.loops.loop``): it waits only for events that its own client fetches,
and otherwise yields how long it rests.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from daemon.consumer.event_reader import Batch, Stages
from state.errors import GapDetected, Inconsistent
from state.event_log.positions import Position


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from daemon.consumer.event_reader import EventReader
    from daemon.consumer.metrics import ProjectionMetrics
    from daemon.consumer.settings import ReaderStatus
    from daemon.process.loops.heartbeat import Heartbeat
    from handlers.events import Event
    from handlers.failures import TableFailure
    from state.errors import TidelineError


@dataclass(frozen=True, slots=True)
class ProjectionStatus:
    """Status of a projection. Immutable, because other threads read it."""

    name: str
    source: str
    state: str
    """``starting``, ``not-bootstrapped``, ``following``, ``paused``, ``promoted``, ``retired``,
    ``backing-off``, ``stopped`` or ``failed``.
    """
    position: Position | None
    applied_time_s: int | None
    """Event time of the last applied event, for the lag in seconds."""
    quarantined: Sequence[str] = ()
    failures: Sequence[TableFailure] = ()
    """The reason for each quarantined table."""
    problem: str | None = None
    paused_since_s: int | None = None
    """Unix time at which an operator paused the projection."""
    pause_reason: str = ""
    """The operator's reason; empty if there is none."""
    stages: Stages | None = None
    """The stages of the last applied event."""


class Projection(Protocol):
    """One independent reader of a source's events."""

    @property
    def name(self) -> str:
        """A stable name, unique in the process: label of metrics, name of the state file."""

    @property
    def source(self) -> str:
        """The source whose topic it reads."""

    def prepare(self) -> Iterator[float]:
        """Yield how long to rest while the projection must not be opened, for example while paused. Ends at
        once if a stop is requested.
        """

    def open(self) -> Position:
        """Open the state and return the position to continue from.

        Called at every start and restart, so it also discards what a failed ``apply`` left in memory. Raises
        ConfigError if the projection was never started (no position yet) and cannot choose one itself.
        """

    def apply(self, events: Sequence[Event]) -> Position:
        """Apply ``events`` in order and return the new position; their changes are then durable.

        Even if it raises an error, it may have recorded the first events. After a restart, the reader passes
        the others again, and perhaps some events that changed nothing.
        """

    def skip(self, position: Position, time_s: int) -> None:
        """Continue after ``position``: the events in between concern other projections.

        ``time_s`` is the time of the last of them. Called often, so it writes nothing; the position becomes
        durable with the next effect, or later. After a restart, these events are only read again.
        """

    def settle(self) -> float:
        """Do deferred work for a short time, and return how long the projection may rest if nothing wakes it:
        ``WAIT_S`` to be called again soon, ``BUSY_WAIT_S`` if more can be done at once.

        Called repeatedly while there is nothing to apply, so it must be cheap.
        """

    def hold(self) -> Iterator[float]:
        """Serve requests; yield how long to rest while the projection must not read or apply events.

        Called before each read.
        """

    def quarantined(self) -> Sequence[str]:
        """Return the quarantined tables, as ``db.table``."""

    def failures(self) -> Sequence[TableFailure]:
        """Return the reason for each quarantined table."""

    def close(self) -> None:
        """Release the store and connections; callable in any state."""


class ServedProjection(Projection, Protocol):
    """A projection that serves requests of commands between batches."""

    def serve_failed(self) -> bool:
        """Serve requests while the loop waits after an error.

        Returns whether there were any, so that the loop runs again.
        """


WAIT_S: Final = 0.5
"""The longest time for which one read waits for events."""
BUSY_WAIT_S: Final = 0.01
"""The same time while there is deferred work."""


class ProjectionLoop:
    """A projection with its reader, as the supervisor runs it (``daemon.process.loops.heartbeat.Loop``).

    Both stay open when the loop restarts; only a stop request releases them.
    """

    def __init__(  # noqa: PLR0913 - the parts of a loop, most of them by name
        self,
        projection: ServedProjection,
        open_reader: Callable[[], EventReader],
        metrics: ProjectionMetrics,
        *,
        position: Position | None,
        applied_time_s: int | None = None,
        report: Callable[[ProjectionStatus], None] = lambda _: None,
        cross_gap: Callable[[GapDetected], TidelineError] | None = None,
    ) -> None:
        """``position`` and ``applied_time_s`` come from the state before it is open.

        The first run calls ``open_reader``, and again if that failed. ``report`` receives the status in every
        iteration. ``cross_gap`` lets the projection continue after lost events, and returns the error with
        which the run then ends. Without ``cross_gap``, a gap fails the loop.
        """
        self._projection = projection
        self._open_reader = open_reader
        self._metrics = metrics
        self._report_further = report
        self._cross_gap = cross_gap
        self._reader: EventReader | None = None
        self.is_following = False
        """Whether the projection follows events now. Thread-safe."""
        self.status = ProjectionStatus(
            projection.name,
            projection.source,
            "starting",
            position=position,
            applied_time_s=applied_time_s,
            quarantined=projection.quarantined(),
            failures=projection.failures(),
        )
        """The last status. Thread-safe."""

    def read_status(self) -> ProjectionStatus:
        """Return the last status; its position includes later events that concern only other projections.
        Thread-safe.
        """
        # Read ``find_passed`` before ``status``: the loop reports a status before it applies further events.
        passed = None if self._reader is None else self._reader.find_passed()
        status = self.status
        if passed is None or status.position is None or status.state != "following":
            return status
        position, time_s = passed
        if position.expected() <= status.position.expected():
            return status
        return replace(status, position=position, applied_time_s=time_s)

    def run(self, heartbeat: Heartbeat) -> Iterator[float]:
        """Follow until a stop request, and yield how long to rest; raise the errors of ``follow``."""
        try:
            if self._reader is None:
                self._reader = self._open_reader()
            yield from follow(
                self._projection, self._reader, heartbeat, self._report, self.status, visible=self._observe
            )
        except GapDetected as gap:
            if self._cross_gap is None:
                raise
            raise self._cross_gap(gap) from gap
        finally:
            self.is_following = False
            if heartbeat.stopping.is_set():
                self.close()

    def close(self) -> None:
        """Release the state and all connections."""
        self._projection.close()

    def serve_failed(self) -> bool:
        """Serve requests while the loop waits after an error; return whether it must run again."""
        return self._projection.serve_failed()

    def counts(self) -> ReaderStatus | None:
        """Return the counts of the reader, None before it is open."""
        return None if self._reader is None else self._reader.status

    def _report(self, status: ProjectionStatus) -> None:
        self.status = status
        self.is_following = status.state == "following"
        self._report_further(status)

    def _observe(self, event: Event, stages: Stages | None) -> None:
        self._metrics.observe_visible(self._projection.name, event.event_id, event.time_s)
        if stages is not None:
            self._metrics.observe_stages(self._projection.name, event.event_id, asdict(stages))


def follow(
    projection: Projection,
    reader: EventReader,
    heartbeat: Heartbeat,
    report: Callable[[ProjectionStatus], None],
    last: ProjectionStatus | None = None,
    *,
    visible: Callable[[Event, Stages | None], None] = lambda _event, _stages: None,
) -> Iterator[float]:
    """Drive ``projection`` until ``heartbeat`` requests a stop, and yield how long to rest after each turn;
    ``report`` receives the status in every iteration.

    ``last`` is the status of the previous run, or from the state. Its position and quarantined tables stay in
    the status until the projection is open, so that they do not vanish while a target is down. ``visible``
    receives the last event of each applied batch and its stages. Raises the errors of ``projection`` and
    ``reader``. Does not close the projection: the caller does.
    """
    if last is None:
        last = ProjectionStatus(projection.name, projection.source, "starting", None, None)
    status = replace(last, state="starting", problem=None, paused_since_s=None, pause_reason="")
    report(status)
    with closing(reader):
        yield from projection.prepare()
        if not heartbeat.stopping.is_set():
            position = projection.open()
            reader.seek(position)
            heartbeat.following()
            status = replace(
                status,
                state="following",
                position=position,
                applied_time_s=status.applied_time_s if position == status.position else None,
                quarantined=projection.quarantined(),
                failures=projection.failures(),
            )
        settled_s = WAIT_S
        quiet_s = 0.0
        report(status)
        while not heartbeat.stopping.is_set():
            yield from projection.hold()
            if heartbeat.stopping.is_set():  # it may have rested until now: paused, promoted or retired
                break
            batch = reader.read(min(settled_s, WAIT_S))
            rest_s = 0.0
            if batch.events:
                began_s = time.time()
                status = _apply(projection, reader, batch, status)
                stages = Stages.of(batch, began_s, time.time())
                visible(batch.events[-1], stages)
                status = replace(status, stages=stages or status.stages)
                heartbeat.progress()
                quiet_s = time.monotonic() + WAIT_S
                rest_s = WAIT_S if batch.caught_up and reader.wakes else 0.0
            else:
                status = _skip(projection, batch, status)
                rest_s = quiet_s - time.monotonic() if reader.wakes else 0.0
                if settled_s <= BUSY_WAIT_S or rest_s <= 0:
                    settled_s = projection.settle()
                    rest_s = settled_s if reader.wakes else 0.0
                status = replace(status, quarantined=projection.quarantined(), failures=projection.failures())
                heartbeat.beat()
            report(status)
            yield rest_s
        if (passed := reader.find_passed()) is not None:
            # Otherwise, a projection that rests for long would read these events again after a restart.
            status = _skip(projection, Batch((), passed[0], caught_up=True, time_s=passed[1]), status)
    report(replace(status, state="stopped"))


def _apply(
    projection: Projection, reader: EventReader, batch: Batch, status: ProjectionStatus
) -> ProjectionStatus:
    position = projection.apply(batch.events)
    _require_complete(position, batch, projection.name)
    status = _skip(
        projection, batch, replace(status, position=position, applied_time_s=batch.events[-1].time_s)
    )
    reader.acknowledge(batch.position)
    return replace(
        status,
        quarantined=projection.quarantined(),
        failures=projection.failures(),
    )


def _skip(projection: Projection, batch: Batch, status: ProjectionStatus) -> ProjectionStatus:
    """Skip the end of a batch, which has only events of other projections."""
    if batch.time_s is None or status.position is None:
        return status
    if batch.position.expected() <= status.position.expected():
        return status
    projection.skip(batch.position, batch.time_s)
    return replace(status, position=batch.position, applied_time_s=batch.time_s)


def _require_complete(position: Position, batch: Batch, name: str) -> None:
    """Raise Inconsistent unless the projection applied the whole batch, because the reader would never pass
    the rest again.
    """
    last = batch.events[-1]
    if position != Position(last.event_id, last.part, last.parts):
        raise Inconsistent(
            "the projection did not apply all events of the batch",
            projection=name,
            position=str(position),
            given=str(Position(last.event_id, last.part, last.parts)),
        )
