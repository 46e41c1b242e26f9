"""The partition index as a branch of the catalog: the follower of a source, and the requests to check and
load tables.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from daemon.catalog.settings import CATALOG
from daemon.partitions.answers import PartitionsView
from daemon.partitions.metrics import PartitionMeasures
from daemon.process.inbox import SteppedWork
from handlers.catalog.index.partition_drift import compare_partitions
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from state.errors import BadInput, NotFound


if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.catalog.branch import BranchContext
    from daemon.catalog.settings import CatalogConfig
    from daemon.partitions.metrics import PartitionMetrics
    from handlers.catalog.projection import CatalogProjection
    from handlers.expressions.expression_reader import ExpressionReader
    from state.store import Store


class PartitionBranch:
    """The partition index of one source with its state open (``daemon.catalog.branch.OpenBranch``)."""

    requests: Final = frozenset({"check-partitions", "load-partitions", "load-some"})
    publisher: Final = None

    def __init__(self, metrics: PartitionMetrics, context: BranchContext) -> None:
        settings = CATALOG.of(context.tools.config)[context.source]
        self._metrics = metrics
        self.follower = partition_follower(settings)
        self._expressions = _expression_reader(settings)
        self._checks = SteppedWork()

    def attach(self, projection: CatalogProjection) -> None:
        """Receive the projection that drives the follower."""
        self.projection = projection
        self.follower.turns = projection.turns
        self._measures = PartitionMeasures(self._metrics, projection.name)

    def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Serve one request; raise BadInput for an unknown one, and the errors of serving it."""
        match request:
            case {"do": "check-partitions", "table": str(table)}:
                return self._check(table)
            case {"do": "load-partitions", "table": str(table)}:
                return self._load(table)
            case {"do": "load-some"}:
                self.projection.settle()
                return {"loading": len(self.projection.states.waiting())}
        raise BadInput("unknown request", request=str(request)[:200])

    def view(self) -> PartitionsView:
        """Return the state that answers queries. Thread-safe."""
        states = self.projection.states
        return PartitionsView(
            event_id=self.projection.position.applied_event_id,
            waiting=states.waiting(),
            quarantined=states.quarantined(),
            table_state=states.state,
            is_surveyed=self.projection.is_surveyed,
            follower=self.follower,
            under_load=states.under_load(),
            observer=self._measures,
            read=None if self._expressions is None else self._expressions.read,
        )

    def close(self) -> None:
        """Do nothing: the branch has nothing open."""

    def loading(self) -> list[str]:
        """Return the tables being loaded, with their progress. Thread-safe."""
        under_load = self.projection.states.under_load()
        return [f"{name}, {one.done} of {one.total} partitions" for name, one in sorted(under_load.items())]

    def measure(self) -> None:
        """Set the gauges of the index and its loads."""
        under_load = self.projection.states.under_load().values()
        staged, expected = sum(one.done for one in under_load), sum(one.total for one in under_load)
        self._measures.set_sizes(self.follower.indexed, staged, expected)

    def _check(self, table: str) -> dict[str, Any]:
        if table not in self.follower.indexed:
            raise NotFound("the table is not in the partition index", table=table)
        reflected = self.projection.position.applied_event_id
        comparison = self._checks.advance(
            table,
            lambda: compare_partitions(
                self.projection.calls, self.follower, table, lambda: self.projection.position.applied_event_id
            ),
        )
        if comparison.drift and not comparison.moving:
            self._measures.count_drift(comparison.drift)
        return {"table": table, "event_id": reflected, "drift": comparison.drift, **asdict(comparison)}

    def _load(self, table: str) -> dict[str, Any]:
        """Schedule a load, which runs between batches, because a large table takes longer than a request may
        take.
        """
        self.projection.request_load(table)
        return {"table": table, "event_id": self.projection.position.applied_event_id}


def partition_follower(settings: CatalogConfig) -> PartitionFollower:
    """Return the follower of a source's index. If the index is not configured, it follows no table and
    deletes the content.

    Raises Transient if the index has its own store and cannot reach it.
    """
    section = settings.partitions
    if section is None:
        return PartitionFollower(PartitionRules())
    rules = PartitionRules(tuple(section.tables), tuple(section.exclude))
    return PartitionFollower(rules, _own_store(settings))


def _own_store(settings: CatalogConfig) -> Store | None:
    rules = settings.partitions
    if rules is None or rules.hbase is None:
        return None
    from handlers.hbase.store import open_store

    at = rules.hbase
    return open_store(at.host, at.port, at.table, at.timeout_s)


def _expression_reader(settings: CatalogConfig) -> ExpressionReader | None:
    """Return the reader of expressions, if enabled."""
    if settings.partitions is None or not settings.partitions.read_expressions:
        return None
    from handlers.expressions.expression_reader import ExpressionReader

    return ExpressionReader()
