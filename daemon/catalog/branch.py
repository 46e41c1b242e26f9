"""Protocols of the branches of a catalog. Other capabilities provide the branches: timelines and the index.

The catalog reads the topic and the metastore once for all branches. It does not import them: the assembly
passes them in. A branch provides its follower, the requests that it serves, and the state behind its queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from daemon.http.actions import STRICT
from daemon.waits.conditions import ignore_move


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from prometheus_client import CollectorRegistry
    from starlette.routing import Route

    from daemon.catalog.metrics import CatalogMetrics, CatalogObserver
    from daemon.catalog.queries import Answers, Query
    from daemon.config.model import Config
    from daemon.sources.connections import CallMetrics
    from daemon.sources.shared_readers import SharedReaders
    from daemon.waits.conditions import WaitKind
    from handlers.catalog.following.ports import Follower
    from handlers.catalog.projection import CatalogProjection
    from handlers.catalog.timelines.publisher import TimelinePublisher
    from state.store import Store


@dataclass(frozen=True, slots=True)
class CatalogTools:
    """The configuration and the metrics that opening a catalog needs."""

    config: Config
    calls: CallMetrics
    metrics: CatalogMetrics
    readers: SharedReaders
    openers: Mapping[str, Callable[[BranchContext], OpenBranch]]
    """The functions that open branches, by the names of the branches."""
    moved: Callable[[str], None] = ignore_move
    """Receives the name of a catalog's projection when its state has changed."""


@dataclass(frozen=True, slots=True)
class BranchContext:
    """The source and the open state that a branch gets when it opens."""

    source: str
    store: Store
    observer: CatalogObserver
    tools: CatalogTools


class OpenBranch(Protocol):
    """A branch of one source's catalog with its state open. Only ``view`` and ``loading`` are thread-safe."""

    @property
    def follower(self) -> Follower:
        """Receives the events and listings of the catalog."""

    @property
    def publisher(self) -> TimelinePublisher | None:
        """Writes to the metastore between batches; None without publishing."""

    @property
    def requests(self) -> AbstractSet[str]:
        """The values of ``do`` in requests that this branch serves."""

    def attach(self, projection: CatalogProjection) -> None:
        """Receive the projection that drives the follower. The catalog calls this once, first."""

    def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Serve one request; raise BadInput if malformed, and the errors of serving it."""

    def view(self) -> Any:
        """Return the state that answers queries. Thread-safe."""

    def loading(self) -> list[str]:
        """Return the tables being loaded, with their progress. Thread-safe."""

    def measure(self) -> None:
        """Set the gauges of the branch."""

    def close(self) -> None:
        """Release its own resources."""


@dataclass(frozen=True, slots=True)
class OpenSource:
    """A source with the branch. ``view`` returns the state that answers queries, None before it is open."""

    source: str
    view: Callable[[], Any]


@dataclass(frozen=True)
class TableParameters:
    """The parameters of an action that only needs a table."""

    __pydantic_config__ = STRICT
    table: str
    """``db.table``."""


@dataclass(frozen=True, slots=True)
class BranchAction:
    """An action of the API on one table of a source. It sends a request (``OpenBranch.requests``)."""

    name: str
    """The value of ``do`` in the request, and the last part of the action's path."""
    summary: str
    body: type[Any]
    """The form of its parameters, which have a ``table``."""
    answer: type[Any]
    """The form of its answer."""


class CatalogBranch(Protocol):
    """A kind of branch that a capability provides."""

    @property
    def name(self) -> str:
        """Its key in an open catalog."""

    @property
    def reads_store(self) -> bool:
        """Whether its answers read a store and may block; otherwise they come from memory."""

    def opener(self, registry: CollectorRegistry) -> Callable[[BranchContext], OpenBranch]:
        """Register the branch's metrics, and return the function that opens it for one source.

        The function raises Transient if the branch has its own store and cannot reach it.
        """

    def answers(self, sources: Sequence[OpenSource], newest: Callable[[str], int | None]) -> Answers[Any]:
        """Return the answers to queries about ``sources``."""

    def queries(self) -> Sequence[type[Query]]:
        """Return the queries that the branch answers."""

    def actions(self) -> Sequence[BranchAction]:
        """Return the actions of the API."""

    def pages(self, answers: Any) -> Sequence[Route]:
        """Return the pages of the site that show ``answers``."""

    def wait_kind(self, sources: Sequence[OpenSource]) -> WaitKind[Any]:
        """Return the kind of wait for ``sources``."""

    def serves(self, config: Config, source: str) -> bool:
        """Return whether the configuration has this branch for a source."""
