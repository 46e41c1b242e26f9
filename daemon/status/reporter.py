"""Builds the daemon's status from the supervisor's loops and the parts that capabilities provide.

HTTP threads build the status while loops work. Every part returns immutable values, so this needs no lock and
never waits.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from daemon.consumer.settings import ReaderStatus
from daemon.process.loops.loop import LoopState, LoopStatus
from daemon.status.actions import list_actions
from daemon.status.model import ENDED, DaemonStatus, FailedLoop, ProjectionView, SourceStatus, is_present
from daemon.terminal.application import version_text


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from daemon.consumer.projection import ProjectionStatus
    from daemon.process.loops.supervisor import Supervisor
    from daemon.status.model import FailingLoad, StatusSection


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourcePart:
    """One source: its loop, and the status of that loop."""

    name: str
    loop: str
    relays: bool
    """Whether the loop publishes events, or only reads the newest event id."""
    status: Callable[[], SourceStatus]


@dataclass(frozen=True, slots=True)
class ProjectionPart:
    """One projection; its loop has the same name."""

    name: str
    source: str
    status: Callable[[], ProjectionStatus]
    counts: Callable[[], ReaderStatus | None] = lambda: None
    target: str | None = None
    repair: str = ""
    """How to follow a quarantined table again; ``{table}`` stands for its name."""
    loading: Callable[[], Sequence[str]] = tuple
    """Tables being loaded, with their progress."""
    place: Callable[[], int | None] = lambda: None
    """The place among the policies that wait for their bootstrap."""
    failing: Callable[[], Sequence[FailingLoad]] = tuple
    """Tables whose load has failed; the catalog tries again."""


@dataclass(frozen=True, slots=True)
class StatusContext:
    """The values from which a section is collected: the statuses of the loops, and the time."""

    loops: Mapping[str, LoopStatus]
    now_s: float
    lag_s: Callable[[str, int | None, int | None, float | None], float | None]
    """Returns how long a loop has been behind.

    Its arguments are the loop's name, its lag in events, the event time that it has reached, and the Unix
    time of this lag.
    """


@dataclass(frozen=True, slots=True)
class SectionPart(Generic[T]):
    """One section of the status, with the function that collects its value."""

    section: StatusSection[T]
    collect: Callable[[StatusContext], T]


class StatusReporter:
    """Builds the status; thread-safe."""

    def __init__(
        self,
        supervisor: Supervisor,
        sources: Sequence[SourcePart],
        projections: Sequence[ProjectionPart],
        sections: Sequence[SectionPart[Any]] = (),
        later: Sequence[Callable[[], Sequence[ProjectionPart]]] = (),
    ) -> None:
        """The functions ``later`` return the projections that were added while the daemon runs; their loops
        are added first.
        """
        self._supervisor = supervisor
        self._sources = sources
        self._projections = projections
        self._later = later
        self._sections = sections
        self._started_s = time.time()
        self._identity = (version_text(), socket.gethostname(), os.getpid())
        self._caught_up_s: dict[str, float] = {}
        self.state = "starting"

    def status(self) -> DaemonStatus:
        """Return the current status."""
        now_s = time.time()
        # Read the projections before the loops, so that each of them has a loop.
        parts = (*self._projections, *chain.from_iterable(list_parts() for list_parts in self._later))
        loops = self._supervisor.statuses()
        sources = tuple(self._source(part, loops[part.loop], now_s) for part in self._sources)
        rows = {source.name: source for source in sources}
        projections = tuple(
            self._projection(part, loops[part.name], rows.get(part.source), now_s) for part in parts
        )
        context = StatusContext(loops, now_s, partial(self._lag_s, now_s))
        version, host, pid = self._identity
        status = DaemonStatus(
            version,
            host,
            pid,
            self._started_s,
            now_s,
            self.state,
            sources,
            projections,
            tuple(self._supervisor.stuck()),
            tuple(_failed_loops(loops.values())),
            tuple(_blocked_loops(loops.values())),
            sections={part.section.key: part.collect(context) for part in self._sections},
        )
        return replace(status, needs_operator=list_actions(status, [part.section for part in self._sections]))

    def _source(self, part: SourcePart, loop: LoopStatus, now_s: float) -> SourceStatus:
        own = part.status()
        lag_events = _behind(own.relayed_event_id, own.current_event_id)
        return replace(
            own,
            relay_state=loop.shown_state.value if part.relays else None,
            lag_events=lag_events,
            lag_s=self._unread_s(own.read_s, now_s)
            if lag_events is None
            else self._lag_s(now_s, loop.name, lag_events, own.relayed_time_s, own.read_s),
            problem=loop.problem,
            code=loop.code,
        )

    def _projection(
        self, part: ProjectionPart, loop: LoopStatus, source: SourceStatus | None, now_s: float
    ) -> ProjectionView:
        own, counts = part.status(), part.counts() or ReaderStatus("")
        has_ended = own.state in ENDED
        event_id = own.position.applied_event_id if own.position is not None else None
        newest, read_s = (None, None) if source is None else (source.current_event_id, source.read_s)
        lag_events = _behind(event_id, newest)
        lag_s = self._lag_s(now_s, part.name, lag_events, own.applied_time_s, read_s)
        if newest is None and event_id is not None:
            lag_s = self._unread_s(read_s, now_s)
        return ProjectionView(
            name=part.name,
            source=part.source,
            state=_state(loop, own),
            position=str(own.position) if own.position is not None else None,
            event_id=event_id,
            lag_events=None if has_ended else lag_events,
            lag_s=None if has_ended else lag_s,
            quarantined=() if has_ended else tuple(own.quarantined),
            failures=() if has_ended else tuple(own.failures),
            repair=part.repair,
            problem=loop.problem or own.problem,
            code=loop.code,
            restarts=loop.restarts,
            duplicates=counts.duplicates,
            filled=counts.filled,
            undecodable=counts.dead_letters,
            unknown=counts.unknown,
            foreign=counts.foreign,
            target=part.target,
            loading=tuple(part.loading()),
            paused_since_s=own.paused_since_s,
            pause_reason=own.pause_reason,
            failing=tuple(part.failing()),
            place=part.place(),
            stages=own.stages,
        )

    def _lag_s(
        self,
        now_s: float,
        loop: str,
        lag_events: int | None,
        reached_time_s: int | None,
        read_s: float | None,
    ) -> float | None:
        """Return how long the loop has been behind: 0 if it has caught up, even if the last event is old.

        ``lag_events`` is the value at ``read_s``. Even if the loop had caught up then, there may be newer
        events now if its source is unreadable.

        The age of the last event is an upper bound only: after a quiet night, a single new event would appear
        as a lag of hours. The lag is therefore bounded by the time since the loop was last caught up, which
        every status records.
        """
        if lag_events is None:
            return None
        if lag_events == 0:
            if read_s is not None:
                self._caught_up_s[loop] = now_s if is_present(read_s, now_s) else read_s
            return max(0.0, now_s - self._caught_up_s.get(loop, self._started_s))
        if reached_time_s is None:  # it has applied nothing yet in this process
            reached_time_s = int(self._started_s)
        return max(0.0, now_s - max(reached_time_s, self._caught_up_s.get(loop, 0.0)))

    def _unread_s(self, read_s: float | None, now_s: float) -> float | None:
        """Return how long the newest event id of a source has been unreadable; None while it is readable."""
        return None if is_present(read_s, now_s) else max(0.0, now_s - (read_s or self._started_s))


def _state(loop: LoopStatus, own: ProjectionStatus) -> str:
    """Return the supervisor's state of the loop, or the projection's own state while the loop runs."""
    state = loop.shown_state
    return own.state if state is LoopState.FOLLOWING else state.value


def _failed_loops(loops: Iterable[LoopStatus]) -> Iterator[FailedLoop]:
    for loop in loops:
        if loop.failed_s is not None:
            yield FailedLoop(loop.name, loop.code or "", loop.problem or "failed", loop.failed_s, loop.hint)


def _blocked_loops(loops: Iterable[LoopStatus]) -> Iterator[FailedLoop]:
    for loop in loops:
        if loop.failed_s is None and loop.problem is not None and loop.problem_s is not None:
            yield FailedLoop(loop.name, loop.code or "", loop.problem, loop.problem_s, loop.hint)


def _behind(reached: int | None, newest: int | None) -> int | None:
    if reached is None or newest is None:
        return None
    return max(0, newest - reached)
