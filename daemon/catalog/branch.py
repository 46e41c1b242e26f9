"""What other capabilities keep in a source's catalog: timelines, and the partition index.

The catalog reads the topic and the metastore once for all branches. It does not know them: the assembly hands them over, and a
branch brings its follower, the requests that it serves beside answers, and what its answers are made from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from prometheus_client import CollectorRegistry

    from daemon.catalog.metrics import CatalogMetrics, CatalogObserver
    from daemon.catalog.queries import Answers, Query
    from daemon.config.model import Config
    from daemon.sources.connections import CallMetrics
    from handlers.catalog.following.ports import Follower
    from handlers.catalog.projection import CatalogProjection
    from handlers.catalog.timelines.publisher import Publisher
    from handlers.metastore.client import Metastore
    from state.store import Store


@dataclass(frozen=True, slots=True)
class CatalogTools:
    """What catalogs are opened with: the configuration, and the metrics of the process."""

    config: Config
    calls: CallMetrics
    metrics: CatalogMetrics
    openers: Mapping[str, Callable[[Ground], OpenBranch]]
    """By the branches' names."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a branch is opened on: one source with its state and metastore."""

    source: str
    metastore: Metastore
    store: Store
    observer: CatalogObserver
    tools: CatalogTools


class OpenBranch(Protocol):
    """A branch of one source's catalog with its state open; used by the catalog's thread, except ``known`` and ``loading``."""

    @property
    def follower(self) -> Follower:
        """Receives the events and listings of the catalog."""

    @property
    def publisher(self) -> Publisher | None:
        """Writes to the metastore between batches; None where nothing is published."""

    @property
    def requests(self) -> AbstractSet[str]:
        """The values of ``do`` in requests that this branch serves."""

    def attach(self, projection: CatalogProjection) -> None:
        """Take the projection that drives the follower; called once, before anything else."""

    def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Serve one request; raise BadInput if it is malformed, and the errors of serving it."""

    def known(self) -> Any:
        """Return what answers are made from; for any thread."""

    def loading(self) -> list[str]:
        """Return the tables that are being loaded, with how far they are; for any thread."""

    def measure(self) -> None:
        """Set the gauges of what is kept."""

    def close(self) -> None:
        """Release what it opened itself."""


@dataclass(frozen=True, slots=True)
class CatalogView:
    """What a branch's answers about one source are made from; ``known`` returns None until its state is open."""

    source: str
    known: Callable[[], Any]


class CatalogBranch(Protocol):
    """A kind of branch, as a capability offers it."""

    @property
    def name(self) -> str:
        """Its key within an open catalog."""

    @property
    def reads_store(self) -> bool:
        """Whether its answers read a store, so that they may wait; else they are made from memory."""

    def opener(self, registry: CollectorRegistry) -> Callable[[Ground], OpenBranch]:
        """Register the branch's metrics, and return what opens it for one source.

        Opening raises Transient where the branch has a store of its own that cannot be reached.
        """

    def answers(self, views: Sequence[CatalogView], newest: Callable[[str], int | None]) -> Answers[Any]:
        """Return what answers queries about the sources of ``views``."""

    def queries(self) -> Sequence[type[Query]]:
        """Return the queries that are answered."""

    def serves(self, config: Config, source: str) -> bool:
        """Whether the configuration has this branch for a source, so that it is asked about."""
