"""From a catalog's settings to its partition index, and what may be asked of it besides answers: check and load."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from daemon.partitions.answers import KnownPartitions
from handlers.catalog.index.partition_drift import compare_partitions
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from state.errors import BadInput, NotFound


if TYPE_CHECKING:
    from daemon.config import CatalogConfig
    from daemon.partitions.metrics import PartitionMeasures
    from handlers.catalog.projection import CatalogProjection
    from handlers.expressions.expression_reader import ExpressionReader
    from handlers.metastore.client import Metastore
    from state.store import Store


REQUESTS: Final = frozenset({"check-partitions", "load-partitions", "load-some"})


def partition_follower(settings: CatalogConfig) -> PartitionFollower:
    """Return the follower of a source's index; without the section one that wants nothing, and forgets what there was.

    Raises Transient where the index has a store of its own that is away.
    """
    chosen = settings.partitions
    if chosen is None:
        return PartitionFollower(PartitionRules())
    rules = PartitionRules(tuple(chosen.tables), tuple(chosen.exclude))
    return PartitionFollower(rules, _own_store(settings))


def _own_store(settings: CatalogConfig) -> Store | None:
    chosen = settings.partitions
    if chosen is None or chosen.hbase is None:
        return None
    from handlers.hbase.store import open_store

    at = chosen.hbase
    return open_store(at.host, at.port, at.table, at.timeout_s)


def expression_jvm(settings: CatalogConfig) -> ExpressionReader | None:
    """Return what reads expressions, where that is wanted; its process starts with the first one."""
    if settings.partitions is None or not settings.partitions.read_expressions:
        return None
    from handlers.expressions.expression_reader import ExpressionReader

    return ExpressionReader()


@dataclass(frozen=True, slots=True)
class PartitionDesk:
    """Does what is asked; used by the thread of the catalog, but for ``known`` and ``count``."""

    source: Metastore
    projection: CatalogProjection
    follower: PartitionFollower
    measures: PartitionMeasures
    expressions: ExpressionReader | None = None

    def do(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do one request; raises BadInput for one that is none, and what it raises."""
        match request:
            case {"do": "check-partitions", "table": str(table)}:
                return self._check(table)
            case {"do": "load-partitions", "table": str(table)}:
                return self._load(table)
            case {"do": "load-some"}:
                self.projection.settle()
                return {"loading": len(self.projection.states.waiting())}
        raise BadInput("no such request", request=str(request)[:200])

    def known(self) -> KnownPartitions:
        """Return what answers are made from; for any thread."""
        states = self.projection.states
        return KnownPartitions(
            self.follower,
            self.projection.position.applied_event_id,
            states.waiting(),
            states.quarantined(),
            states.under_load(),
            self.measures,
            None if self.expressions is None else self.expressions.read,
        )

    def close(self) -> None:
        """End what reads expressions."""
        if self.expressions is not None:
            self.expressions.close()

    def loading(self) -> list[str]:
        """Tell how far tables under load are; for any thread."""
        under_load = self.projection.states.under_load()
        return [f"{name}, {one.done} of {one.total} partitions" for name, one in sorted(under_load.items())]

    def count(self) -> None:
        """Tell how much is kept and loaded."""
        under_load = self.projection.states.under_load().values()
        staged, expected = sum(one.done for one in under_load), sum(one.total for one in under_load)
        self.measures.counted(self.follower.indexed, staged, expected)

    def _check(self, table: str) -> dict[str, Any]:
        if table not in self.follower.indexed:
            raise NotFound("the table is not in the partition index", table=table)
        reflected = self.projection.position.applied_event_id
        found = compare_partitions(self.source, self.follower, table, reflected)
        if found.drift and not found.moving:
            self.measures.drifted(found.drift)
        return {"table": table, "event_id": reflected, "drift": found.drift, **asdict(found)}

    def _load(self, table: str) -> dict[str, Any]:
        """Have it loaded between batches: a large table takes longer than anybody waits for an answer."""
        self.projection.request_load(table)
        return {"table": table, "event_id": self.projection.position.applied_event_id}
