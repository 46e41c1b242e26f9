"""The loads of a bootstrap: several tables at a time, each recorded as soon as it ends.

Worker threads load tables with their own metastore clients. Only the calling thread writes the state, so a
kill never costs a finished table. If a table fails for its own reason (``OWN_FAULTS``), the policy decides;
by default, it quarantines the table. It retries any other failure later, while the other tables continue.
Views follow after the tables.
"""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, Protocol

from handlers.failpoints import failpoint
from handlers.failures import Backoff
from handlers.replication.context import Context
from handlers.replication.effects.unreplicated import record_obstacle
from handlers.replication.loading.bootstrap import finish_bootstrap, is_pending
from handlers.replication.loading.table.load import load_table
from handlers.replication.loading.table.tools import LoadProgress, LoadSettings, LoadTools, SilentProgress
from handlers.replication.policy.replicability import is_view
from handlers.replication.tables.table_loads import LoadedTable, TableLoad
from state.errors import BadInput, Fenced, Interrupted, Refused, TidelineError
from state.event_log.positions import POSITION_KEY, Position
from state.pieces import in_pieces
from state.store import Store


TRIES_MAX: Final = 5
"""Attempts at one table in one run. If all fail, the run fails once all other tables are loaded, and the next
run tries again.
"""
OWN_FAULTS: Final = (BadInput, Refused)
"""Failures of a load that are the table's own. All others lead to retries, because the table is not to blame
for them."""
_BACKOFF: Final = Backoff(1.0, 30.0)
_POLL_S: Final = 0.5
_TABLES_PAGE: Final = 200


class BootstrapProgress(LoadProgress, Protocol):
    """Receives the progress of a bootstrap, in addition to the progress of its loads."""

    def started(self, tables: int, loaded: int) -> None:
        """The bootstrap has ``tables`` tables; an earlier run loaded ``loaded`` of them."""

    def finished(self, table: LoadedTable) -> None:
        """The load of a table is finished and recorded."""

    def failed(self, table: str, problem: str) -> None:
        """An attempt failed."""


class SilentBootstrap(SilentProgress):
    """A receiver that ignores everything."""

    def started(self, tables: int, loaded: int) -> None:
        """Do nothing."""

    def finished(self, table: LoadedTable) -> None:
        """Do nothing."""

    def failed(self, table: str, problem: str) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class BootstrapOptions:
    """How a bootstrap runs."""

    settings: LoadSettings = field(default_factory=LoadSettings)
    is_stopping: Callable[[], bool] = lambda: False
    """Whether the run must end; it raises Interrupted then."""
    progress: BootstrapProgress = field(default_factory=SilentBootstrap)
    backoff: Backoff = _BACKOFF
    tries_max: int = TRIES_MAX


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The end of one try: a result, or an error."""

    load: TableLoad
    result: LoadedTable | None = None
    error: BaseException | None = None


def run_bootstrap(
    context: Context, store: Store, options: BootstrapOptions, beat: Callable[[], None]
) -> None:
    """Load the tables of an unfinished bootstrap, and finish it; do nothing if there is none.

    Raises Interrupted after a stop, and the last error of a table that still fails once all others are
    loaded.
    """
    if is_pending(store):
        _BootstrapRun(context, store, options, beat).run()
        finish_bootstrap(context, store)


class _BootstrapRun:
    """One run of a bootstrap."""

    def __init__(
        self, context: Context, store: Store, options: BootstrapOptions, beat: Callable[[], None]
    ) -> None:
        self._context = context
        self._store = store
        self._options = options
        self._beat = beat
        self._stopping = threading.Event()
        """Set when the workers must end, because the process stops or an error ends the run."""
        self._todo: queue.SimpleQueue[TableLoad | None] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
        self._tries: dict[str, int] = {}
        self._later: list[tuple[float, str]] = []
        """Time of the next try of failed tables."""

    def run(self) -> None:
        """Load all waiting tables, then all waiting views."""
        waiting = [load for load in self._context.tables.loads.waiting() if load.reason == "bootstrap"]
        bootstrapped = sum(load.reason == "bootstrap" for load in self._context.tables.loads.entries())
        self._options.progress.started(bootstrapped, bootstrapped - len(waiting))
        views = self._find_views([load.table for load in waiting])
        workers = [
            threading.Thread(target=self._work, name=f"tideline-load-{number}", daemon=True)
            for number in range(min(self._options.settings.tables_at_once, len(waiting)))
        ]
        for worker in workers:
            worker.start()
        try:
            self._load([load for load in waiting if load.table not in views])
            self._load([load for load in waiting if load.table in views])
        finally:
            self._stopping.set()
            for _ in workers:
                self._todo.put(None)
            for worker in workers:
                worker.join()

    def _find_views(self, names: Sequence[str]) -> set[str]:
        source, db = self._context.source, self._context.policy.source_db
        views: set[str] = set()
        for piece in in_pieces(names, _TABLES_PAGE):
            tables = source.get_tables(db, piece)
            views |= {(table.tableName or "").lower() for table in tables if is_view(table)}
        return views

    def _load(self, loads: Iterable[TableLoad]) -> None:
        """Give the loads to the workers and record their outcomes, until each load has succeeded, was given
        up or failed too often.
        """
        open_loads = {load.table: load for load in loads}
        for load in open_loads.values():
            self._todo.put(load)
        last_error: TidelineError | None = None
        while open_loads:
            outcome = self._next_outcome(open_loads)
            if outcome is None:
                continue
            table = outcome.load.table
            if outcome.error is None:
                self._record_loaded(outcome)
                del open_loads[table]
            elif not isinstance(outcome.error, TidelineError):
                raise outcome.error
            elif isinstance(outcome.error, OWN_FAULTS):
                self._give_up(table, outcome.error)
                del open_loads[table]
            else:
                self._fail(table, outcome.error)
                if self._tries[table] >= self._options.tries_max:
                    last_error = outcome.error
                    del open_loads[table]
        if last_error is not None:
            raise last_error

    def _next_outcome(self, open_loads: dict[str, TableLoad]) -> _Outcome | None:
        """Wait briefly for the outcome of an attempt, and return it if there is one. Also gives tables
        whose pause is over to the workers again. Raises Interrupted.
        """
        if self._options.is_stopping():
            raise Interrupted("the bootstrap was stopped", policy=self._context.policy.name)
        while self._later and self._later[0][0] <= time.monotonic():
            _, table = heapq.heappop(self._later)
            self._todo.put(open_loads[table])
        if self._later:
            self._beat()  # pausing before the next try counts as progress
        try:
            return self._outcomes.get(timeout=_POLL_S)
        except queue.Empty:
            return None

    def _record_loaded(self, outcome: _Outcome) -> None:
        result = outcome.result
        assert result is not None
        failpoint("bootstrap.before-record")
        self._context.tables.loads.finish(result.table, result.event_id, result.write_id)
        record_obstacle(result, self._context)
        self._record()
        failpoint("bootstrap.after-record")
        self._options.progress.finished(result)

    def _fail(self, table: str, error: TidelineError) -> None:
        """Record a failed try, and schedule the next one; raise an error that ends the run."""
        if isinstance(error, Interrupted | Fenced):
            raise error
        self._tries[table] = self._tries.get(table, 0) + 1
        self._context.tables.loads.fail(table, str(error))
        self._record()
        self._options.progress.failed(table, str(error))
        due_s = time.monotonic() + self._options.backoff.pause_s(self._tries[table])
        if self._tries[table] < self._options.tries_max:
            heapq.heappush(self._later, (due_s, table))

    def _give_up(self, table: str, error: TidelineError) -> None:
        """Handle a failure that is the table's own as the policy requires."""
        stored = self._store.get(POSITION_KEY)
        assert stored is not None
        self._context.handle_failure(table, Position.from_bytes(stored).event_id, error)
        self._context.tables.loads.remove(table)
        self._record()
        self._options.progress.failed(table, str(error))

    def _record(self) -> None:
        with self._store.transaction() as txn:
            self._context.tables.loads.flush(txn)
            self._context.tables.quarantine.flush(txn)
            self._context.tables.unreplicated.flush(txn)

    def _work(self) -> None:
        """Load tables until there are no more; runs in a worker thread."""
        context = self._context
        with closing(context.source.clone()) as source, closing(context.target.clone()) as target:
            tools = LoadTools(
                policy=context.policy,
                source=source,
                target=target,
                files=context.files,
                copies=context.copies,
                settings=self._options.settings,
                stopping=self._stopping,
                beat=self._beat,
                jobs=context.jobs,
            )
            while (load := self._todo.get()) is not None:
                try:
                    result = load_table(load, tools, self._options.progress)
                except BaseException as error:  # noqa: BLE001 - passed to the calling thread, which decides
                    self._outcomes.put(_Outcome(load, error=error))
                else:
                    self._outcomes.put(_Outcome(load, result))
