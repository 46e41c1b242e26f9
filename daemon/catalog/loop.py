"""The loop of a source's catalog: it follows the topic, and does what it is asked between two batches.

The state is opened in the loop's own thread when it first runs, and kept open while the loop is restarted; what answers are made
from is there only once it has been read.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from daemon.catalog.opening import open_catalog, projection_name, requests_directory
from daemon.catalog.rules import facts_of
from daemon.consumer import follow
from daemon.consumer.projection import ProjectionStatus
from daemon.partitions.answers import PartitionView
from daemon.process.inbox import Inbox
from daemon.process.lazy_loop import Late
from daemon.process.supervisor import Job
from daemon.service.metrics import CatalogMeasures
from daemon.sources.reader import topic_reader
from daemon.status.collector import ProjectionPart
from daemon.timelines.answers import TimelineView
from state.timelines.tables.projection import count_runs, iterate_timelines


if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.catalog.opening import OpenCatalog
    from daemon.config import Config
    from daemon.consumer import ReaderStatus
    from daemon.partitions.answers import KnownPartitions
    from daemon.process.heartbeat import Lifeline
    from daemon.service.metrics import Metrics
    from daemon.timelines.answers import Known
    from handlers.events import Event
    from state.positions import Position


MEASURE_S: Final = 5.0
"""How often runs are counted for the metrics."""


@dataclass(frozen=True, slots=True)
class CatalogParts:
    """The loop of a source's catalog, what it tells, and the views that answer from it."""

    job: Job
    part: ProjectionPart
    timelines: TimelineView
    partitions: PartitionView | None
    """None where no table is to be indexed."""


def build_catalog(config: Config, source: str, metrics: Metrics) -> CatalogParts:
    """Return the parts of a source's catalog; opens nothing yet."""
    projection = projection_name(source)
    late = Late(lambda: _Catalog(config, source, metrics))
    idle = ProjectionStatus(projection, source, "starting", None, None)
    part = ProjectionPart(
        projection,
        source,
        status=lambda: late.built.status if late.built is not None else idle,
        counts=lambda: late.built.counts() if late.built is not None else None,
        loading=lambda: late.built.loading() if late.built is not None else (),
    )
    timelines = TimelineView(
        source, facts_of(config, source), lambda: late.built.known() if late.built is not None else None
    )
    partitions = PartitionView(
        source, lambda: late.built.known_partitions() if late.built is not None else None
    )
    indexes = config.catalog[source].partitions is not None
    return CatalogParts(Job(projection, late.run), part, timelines, partitions if indexes else None)


class _Served:
    """The catalog's projection, which also does what is asked of it between batches."""

    def __init__(self, opened: OpenCatalog, inbox: Inbox) -> None:
        self._projection = opened.projection
        self._do = opened.do
        self._close = opened.close
        self._inbox = inbox
        self.name = opened.projection.name
        self.source = opened.projection.source

    def open(self) -> Position:
        """Open the projection and the inbox."""
        self._inbox.open()
        return self._projection.open()

    def apply(self, events: Sequence[Event]) -> Position:
        """Apply, then serve."""
        position = self._projection.apply(events)
        self._inbox.serve(self._do)
        return position

    def settle(self) -> None:
        """Settle, then serve."""
        self._projection.settle()
        self._inbox.serve(self._do)

    def quarantined(self) -> Sequence[str]:
        """Return the quarantined tables."""
        return self._projection.quarantined()

    def close(self) -> None:
        """Release everything."""
        self._close()


class _Catalog:
    """One source's catalog projection with its reader, kept over restarts of the loop."""

    def __init__(self, config: Config, source: str, metrics: Metrics) -> None:
        name = projection_name(source)
        self._measures = CatalogMeasures(metrics, name)
        self._visible_s = metrics.visible_s.labels(name)
        self._reader = topic_reader(
            config, source, projection=projection_name(source), group=f"tideline.catalog.{source}"
        )  # before the state is opened: nothing is held where it fails
        self._opened = open_catalog(config, source, self._measures, metrics)
        self._served = _Served(self._opened, Inbox(requests_directory(config, source)))
        self._counted_s = 0.0
        self.status = ProjectionStatus(name, source, "starting", None, None)

    def run(self, lifeline: Lifeline) -> None:
        """Follow until told to stop; the state is released only then, since a restart goes on with it."""
        try:
            follow(self._served, self._reader, lifeline, self._report)
        finally:
            if lifeline.stopping.is_set():
                self._served.close()

    def known(self) -> Known | None:
        """What answers are made from, None before the state is read; for any thread."""
        return None if self.status.position is None else self._opened.known()

    def known_partitions(self) -> KnownPartitions | None:
        """What answers about partitions are made from, None before the state is read; for any thread."""
        return None if self.status.position is None else self._opened.partitions.known()

    def loading(self) -> list[str]:
        """Which tables are being loaded in pieces, and how far they are; for any thread."""
        return self._opened.partitions.loading()

    def counts(self) -> ReaderStatus:
        """What the reader has met."""
        return self._reader.status

    def _report(self, status: ProjectionStatus) -> None:
        moved = status.applied_time_s is not None and status.position != self.status.position
        self.status = status
        if moved and status.applied_time_s is not None:
            self._visible_s.observe(max(0.0, time.time() - status.applied_time_s))
        if time.monotonic() - self._counted_s >= MEASURE_S:
            self._count()

    def _count(self) -> None:
        known = self._opened.known()
        self._measures.counted(
            sum(1 for _ in iterate_timelines(known.timelines)),
            count_runs(known.timelines),
            len(known.waiting),
        )
        self._opened.partitions.count()
        self._counted_s = time.monotonic()
