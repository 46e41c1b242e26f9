"""The loop of a source's catalog: it follows the topic, and serves requests between batches.

The loop opens the state in its own thread when it first runs, and keeps it open when the loop restarts.
Queries get answers once the loop has read the state. After a gap, the loop loads all tables again from the
metastore, without an operator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import structlog

from daemon.catalog.branch import CatalogTools
from daemon.catalog.opening import OpenCatalog, open_catalog, projection_name
from daemon.consumer.projection import BUSY_WAIT_S, WAIT_S, ProjectionLoop, ProjectionStatus
from daemon.process.inbox import Inbox, requests_directory
from daemon.process.loops.heartbeat import Heartbeat, LazyLoop, Pulse
from daemon.process.loops.loop import Job
from daemon.sources.shared_readers import subscribe
from daemon.status.model import FailingLoad
from daemon.status.reporter import ProjectionPart
from daemon.waits.conditions import Moves
from handlers.events import Event
from handlers.failures import TableFailure
from state.errors import GapDetected, Interrupted
from state.event_log.positions import Position


log = structlog.get_logger(__name__)

MEASURE_S: Final = 5.0
"""How often to count runs for the metrics."""


@dataclass(frozen=True, slots=True)
class CatalogPart:
    """The loop of a source's catalog, and its parts of the status."""

    source: str
    job: Job
    part: ProjectionPart
    view: Callable[[str], Any]
    """Returns the state that answers the queries of the named branch; None before the loop has read it.
    Thread-safe.
    """


def build_catalog(tools: CatalogTools, source: str) -> CatalogPart:
    """Return the parts of a source's catalog without opening any of them."""
    projection = projection_name(source)
    lazy = LazyLoop(lambda: _Catalog(tools, source))
    idle = ProjectionStatus(projection, source, "starting", None, None)
    part = ProjectionPart(
        projection,
        source,
        status=lambda: lazy.read(lambda catalog: catalog.loop.status, idle),
        counts=lambda: lazy.read(lambda catalog: catalog.loop.counts(), None),
        repair=f"tideline timeline rebuild {{table}} --source {source}",
        loading=lambda: lazy.read(lambda catalog: catalog.loading(), []),
        failing=lambda: lazy.read(lambda catalog: catalog.failing(), []),
    )
    revive = partial(lazy.read, lambda catalog: catalog.loop.serve_failed(), otherwise=False)
    job = Job(projection, lazy.run, revive=revive)
    return CatalogPart(
        source, job, part, lambda branch: lazy.read(lambda catalog: catalog.view(branch), None)
    )


class _Served:
    """The catalog's projection, which also serves requests between batches."""

    def __init__(self, opened: OpenCatalog, inbox: Inbox) -> None:
        self._projection = opened.projection
        self._do = opened.do
        self._close = opened.close
        self._inbox = inbox
        self.name = opened.projection.name
        self.source = opened.projection.source

    def prepare(self) -> Iterator[float]:
        """Open the inbox, without a rest."""
        self._inbox.open()
        yield from ()

    def open(self) -> Position:
        """Open the projection."""
        return self._projection.open()

    def apply(self, events: Sequence[Event]) -> Position:
        """Apply the events."""
        return self._projection.apply(events)

    def skip(self, position: Position, time_s: int) -> None:
        """Raise AssertionError: the reader skips no events of a catalog, which receives all of them."""
        raise AssertionError(f"a catalog skips no events: {position} {time_s}")

    def settle(self) -> float:
        """Do deferred work; return a short rest if there is more work or a waiting request."""
        is_busy = self._projection.settle() or self._inbox.has_waiting()
        return BUSY_WAIT_S if is_busy else WAIT_S

    def hold(self) -> Iterator[float]:
        """Serve requests; a catalog has no pause."""
        self._inbox.serve(self._do)
        yield from ()

    def serve_failed(self) -> bool:
        """Serve requests while the catalog cannot follow events; return whether there were any."""
        return self._inbox.has_waiting() and self._inbox.serve(self._do) >= 0

    def quarantined(self) -> Sequence[str]:
        """Return the quarantined tables."""
        return self._projection.quarantined()

    def failures(self) -> Sequence[TableFailure]:
        """Return the reason for each quarantined table."""
        return self._projection.failures()

    def close(self) -> None:
        """Release everything."""
        self._close()


class _Catalog:
    """One source's catalog. It stays open when its loop restarts."""

    def __init__(self, tools: CatalogTools, source: str) -> None:
        name = projection_name(source)
        self._pulse = Pulse()
        self._opened = open_catalog(tools, source, self._pulse.beat)
        inbox = Inbox(requests_directory(tools.config.state.dir, "catalog", source))
        self._measured_s = 0.0
        self._moves = Moves(tools.moved, name)
        try:
            self._is_readable = self._opened.projection.read_state()
            """Whether queries can be answered from the state, which may be old: this does not require a
            readable topic.
            """
        except BaseException:
            self._opened.close()
            raise
        open_reader = partial(
            subscribe,
            tools.config,
            tools.readers.of(source),
            source,
            projection=name,
            group=f"tideline.catalog.{source}",
            needs_event_ids=True,
            wake=self._pulse.wake,
        )
        self.loop = ProjectionLoop(
            _Served(self._opened, inbox),
            open_reader,
            tools.metrics.projections,
            position=self._opened.projection.position if self._is_readable else None,
            report=self._report,
            cross_gap=self._cross_gap,
        )

    def run(self, heartbeat: Heartbeat) -> Iterator[float]:
        """Follow the topic until a stop request; yield how long to rest."""
        self._pulse.connect(heartbeat)
        yield from self.loop.run(heartbeat)

    def close(self) -> None:
        """Release the state and all connections."""
        self.loop.close()

    def _cross_gap(self, gap: GapDetected) -> Interrupted:
        """Load all tables again from the metastore, which contains the effects of the lost events."""
        before, after = self._opened.projection.cross_gap()
        log.error(
            "a catalog lost events and loads all its tables again",
            source=self._opened.projection.source,
            after=before.applied_event_id,
            upto=after.event_id,
            problem=str(gap),
        )
        return Interrupted("the catalog lost events and loads its tables again")

    def view(self, branch: str) -> Any:
        """Return the state that answers a branch's queries; None before the state is read. Thread-safe.

        While the topic is unreadable, this is the last state, and the answers say that they are stale.
        """
        if not self._is_readable:
            return None
        view = self._opened.branches[branch].view()
        return view if self.loop.is_following else replace(view, stale=True)

    def loading(self) -> list[str]:
        """Return the tables being loaded in pieces, with their progress. Thread-safe."""
        return self._opened.loading()

    def failing(self) -> list[FailingLoad]:
        """Return the tables whose load failed and will be tried again. Thread-safe."""
        return self._opened.failing()

    def _report(self, status: ProjectionStatus) -> None:
        self._is_readable = self._is_readable or status.position is not None
        projection = self._opened.projection
        is_complete = projection.is_surveyed and not projection.states.waiting()
        # During listings and loads, each step may complete a table, and the position does not move.
        self._moves.report(status.position, status.quarantined, None if is_complete else object())
        if time.monotonic() - self._measured_s >= MEASURE_S:
            self._opened.measure()
            self._measured_s = time.monotonic()
