"""Opens the catalog of a source: builds the projection that drives its branches from the settings.

The daemon's loop keeps it open. The command line opens it if no daemon runs, under the lock of the state
directory. Only one process at a time may have it open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from daemon.catalog.branch import BranchContext, CatalogTools, OpenBranch
from daemon.catalog.metrics import CatalogObserver
from daemon.config.model import Config
from daemon.sources.connections import measured_metastore
from daemon.state_directory.directory import VERSION, open_state, state_path
from daemon.status.model import FailingLoad
from handlers.catalog.following.background import CallThread
from handlers.catalog.following.table_states import migrate_table_states
from handlers.catalog.projection import CatalogProjection
from handlers.metastore.client import Metastore
from state.errors import BadInput
from state.partitions.index.records import draw_versions
from state.store import Transaction
from state.value_text import count_text


def _leave_unchanged(_: Transaction) -> None:
    """Convert nothing: a timeline without ignored values already says so. The new schema version only keeps
    older versions of Tideline from opening the file, because they would not record ignored values.
    """


MIGRATIONS: Final = (migrate_table_states, draw_versions, _leave_unchanged)
CATALOG_VERSION: Final = VERSION + len(MIGRATIONS)
"""Schema version of the catalog's state file."""
FAILED_MAX: Final = 100
"""Maximum number of listed tables with a failed load."""


def projection_name(source: str) -> str:
    """Return the name of a source's catalog projection."""
    return f"catalog:{source}"


def catalog_path(config: Config, source: str) -> Path:
    """Return the path of a source's catalog state; other processes may read it."""
    return state_path(config.state.dir, "catalog", source)


@dataclass(frozen=True, slots=True)
class OpenCatalog:
    """A source's catalog with its state open."""

    metastore: Metastore
    projection: CatalogProjection
    observer: CatalogObserver
    branches: Mapping[str, OpenBranch]

    def do(self, request: dict[str, Any]) -> dict[str, Any]:
        """Let a branch serve a request. Raises BadInput for an unknown one, and the errors of serving it."""
        for branch in self.branches.values():
            if request.get("do") in branch.requests:
                return branch.do(request)
        raise BadInput("unknown request", request=str(request)[:200])

    def loading(self) -> list[str]:
        """Return the tables being loaded, with their progress, and those whose load failed. Thread-safe."""
        rows = [row for branch in self.branches.values() for row in branch.loading()]
        failed = self.failing()
        return [
            *rows,
            *(f"{one.table}, failed {count_text(one.tries, 'time')}: {one.reason}" for one in failed),
        ]

    def failing(self) -> list[FailingLoad]:
        """Return at most ``FAILED_MAX`` tables whose load failed and will be tried again, without quarantined
        ones. Thread-safe.
        """
        states = self.projection.states
        failed = sorted(one for one in states.postponed().items() if not states.is_quarantined(one[0]))
        failed = failed[:FAILED_MAX]
        return [FailingLoad(name, one.tries, one.reason, one.next_s) for name, one in failed]

    def measure(self) -> None:
        """Set the gauges of all branches."""
        states = self.projection.states
        self.observer.set_waiting(len(states.waiting().keys() - states.quarantined().keys()))
        for branch in self.branches.values():
            branch.measure()

    def close(self) -> None:
        """Close the state, the connections and the branches."""
        self.projection.close()
        for branch in self.branches.values():
            branch.close()


def open_catalog(tools: CatalogTools, source: str, beat: Callable[[], None] = lambda: None) -> OpenCatalog:
    """Open a source's catalog. After an error, nothing stays open.

    The catalog calls ``beat`` for each step of long work: an applied event, a loaded piece, an answered call.
    Raises StateLocked, StateCorrupt, ConfigError, and the errors of a branch.
    """
    name = projection_name(source)
    observer = CatalogObserver(tools.metrics, name)
    uris = tools.config.sources[source].metastore
    metastore = measured_metastore(tools.calls, source, beat)(uris)
    calls = CallThread(measured_metastore(tools.calls, source)(uris), f"{name}:calls")
    store = open_state(tools.config.state.dir, "catalog", source, snapshots=True, migrations=MIGRATIONS)
    with ExitStack() as opened:  # a branch may fail, and the next attempt needs the lock of the state file
        opened.callback(store.close)
        opened.callback(calls.close)
        opened.callback(metastore.close)
        context = BranchContext(source, store, observer, tools)
        branches: dict[str, OpenBranch] = {}
        for kind, opener in tools.openers.items():
            branch = branches[kind] = opener(context)
            opened.callback(branch.close)
            opened.callback(branch.follower.close)
        publishers = [each.publisher for each in branches.values() if each.publisher is not None]
        projection = CatalogProjection(
            source_name=source,
            source=metastore,
            store=store,
            followers=[each.follower for each in branches.values()],
            observer=observer,
            publisher=publishers[0] if publishers else None,
            beat=beat,
            calls=calls,
        )
        for each in branches.values():
            each.attach(projection)
        opened.pop_all()
    return OpenCatalog(metastore, projection, observer, branches)
