"""The partition index as a capability: a branch of the catalog."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from daemon.capability import Capability, Command


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import CollectorRegistry
    from starlette.routing import Route

    from daemon.catalog.branch import BranchAction, BranchContext, OpenSource
    from daemon.catalog.queries import Query
    from daemon.config.model import Config
    from daemon.partitions.answers import PartitionAnswers
    from daemon.partitions.branch import PartitionBranch
    from daemon.waits.conditions import WaitKind


class Partitions(Capability):
    """Answers partition filters from an index (``daemon.catalog.branch.CatalogBranch``)."""

    reads_store = True
    name = "partitions"
    heading = "Timelines and partition index"
    commands = (
        Command(
            "partitions",
            "daemon.partitions.commands",
            "Query, explain, load and check the partition index.",
        ),
    )

    def opener(self, registry: CollectorRegistry) -> Callable[[BranchContext], PartitionBranch]:
        """Register the metrics of the index, and return the function that opens the index of a source."""
        from daemon.partitions.branch import PartitionBranch
        from daemon.partitions.metrics import PartitionMetrics

        return partial(PartitionBranch, PartitionMetrics(registry))

    def serves(self, config: Config, source: str) -> bool:
        """Return whether the source has a partition index."""
        from daemon.catalog.settings import CATALOG

        return CATALOG.of(config)[source].partitions is not None

    def answers(self, sources: Sequence[OpenSource], newest: Callable[[str], int | None]) -> PartitionAnswers:
        """Return the answers to queries about the indexes of ``sources``."""
        from daemon.partitions.answers import PartitionAnswers

        return PartitionAnswers(sources, newest)

    def pages(self, answers: PartitionAnswers) -> Sequence[Route]:
        """Return the pages of the site."""
        from daemon.partitions.pages import partition_pages

        return partition_pages(answers)

    def wait_kind(self, sources: Sequence[OpenSource]) -> WaitKind[Any]:
        """Return the kind of wait for ``sources``."""
        from daemon.partitions.waits import partition_kind

        return partition_kind(sources)

    def queries(self) -> Sequence[type[Query]]:
        """Return the queries of ``/api/v1/partitions``."""
        from daemon.partitions.queries import QUERIES

        return QUERIES

    def actions(self) -> Sequence[BranchAction]:
        """Return the actions on one table."""
        from daemon.partitions.actions import ACTIONS

        return ACTIONS
