"""The partition index as a capability: a branch of the catalog."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from daemon.capability import Capability, Command


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import CollectorRegistry
    from starlette.routing import Route

    from daemon.catalog.branch import CatalogView, Ground
    from daemon.config.model import Config
    from daemon.partitions.answers import PartitionAnswers
    from daemon.partitions.branch import PartitionBranch
    from daemon.partitions.client import RemotePartitions


class Partitions(Capability):
    """Partition filters answered from an index (``daemon.catalog.branch.CatalogBranch``)."""

    name = "partitions"
    commands = (
        Command(
            "partitions",
            "daemon.partitions.commands",
            "Ask the partition index, explain its answers, load and check it.",
        ),
    )

    def opener(self, registry: CollectorRegistry) -> Callable[[Ground], PartitionBranch]:
        """Register the metrics of the index, and return what opens the index of a source."""
        from daemon.partitions.branch import PartitionBranch
        from daemon.partitions.metrics import PartitionMetrics

        return partial(PartitionBranch, PartitionMetrics(registry))

    def serves(self, config: Config, source: str) -> bool:
        """Whether any table of the source is to be indexed."""
        from daemon.catalog.settings import CATALOG

        return CATALOG.of(config)[source].partitions is not None

    def answers(
        self, config: Config, views: Sequence[CatalogView], newest: Callable[[str], int | None]
    ) -> PartitionAnswers:
        """Return what answers queries about the indexes of ``views``."""
        from daemon.partitions.answers import PartitionAnswers, PartitionView

        del config
        return PartitionAnswers([PartitionView(view.source, view.known) for view in views], newest)

    def client(self, address: str) -> RemotePartitions:
        """Return the same answers from the daemon at ``address``."""
        from daemon.partitions.client import RemotePartitions

        return RemotePartitions(address)

    def routes(self, answers: PartitionAnswers) -> Sequence[Route]:
        """Return the routes of ``/api/v1/partitions``."""
        from daemon.partitions.routes import partition_routes

        return partition_routes(answers)
