"""Loads waiting tables one after another in its own thread, while replay follows all other tables.

Replay's thread calls ``step`` between two batches: it takes over a finished load and starts the next one.
After each failure of a table, its load waits longer. The load uses its own metastore clients and copy
threads, so that it neither waits for replay nor delays it, and it writes nothing into the policy's state:
only replay's thread does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import structlog

from handlers.failures import Backoff
from handlers.files.copying.pool import CopyPool
from handlers.replication.context import Context
from handlers.replication.loading.follower import LoadFollower
from handlers.replication.loading.table.load import load_table
from handlers.replication.loading.table.tools import LoadProgress, LoadSettings, LoadTools, SilentProgress
from handlers.replication.tables.table_loads import LoadedTable, TableLoad
from state.errors import Inconsistent, TidelineError, Transient


log = structlog.get_logger(__name__)

_BACKOFF: Final = Backoff(2.0, 300.0)
"""The pause between a failed load of a table and the next."""
JOIN_S: Final = 30.0


@dataclass(slots=True)
class _Run:
    """One load in its thread."""

    entry: TableLoad
    stopping: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    loaded: LoadedTable | None = None
    error: TidelineError | None = None

    def is_over(self) -> bool:
        return self.thread is not None and not self.thread.is_alive()


class LoadThread:
    """The loads of one policy while it follows. All methods belong to replay's thread, except for
    ``table``.
    """

    def __init__(
        self,
        context: Context,
        open_pool: Callable[[], CopyPool],
        settings: LoadSettings,
        *,
        progress: LoadProgress | None = None,
        load: Callable[[TableLoad, LoadTools, LoadProgress], LoadedTable] = load_table,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``open_pool`` returns the copy threads of one load."""
        self._context = context
        self._open_pool = open_pool
        self._settings = settings
        self._progress = progress or SilentProgress()
        self._load = load
        self._clock = clock
        self._run: _Run | None = None
        self._due_s: dict[str, float] = {}
        context.tables.loads.subscribe(self)

    @property
    def table(self) -> str | None:
        """The table under load; thread-safe."""
        run = self._run
        return None if run is None else run.entry.table

    def step(self, follower: LoadFollower) -> None:
        """Take over a finished load, and start the next one if none runs and a place is free."""
        run = self._run
        if run is not None and run.is_over():
            self._run = None
            self._take(run, follower)
        if self._run is None:
            due = [
                entry for entry in follower.to_load() if self._due_s.get(entry.table, 0.0) <= self._clock()
            ]
            if due and self._context.long_work.loads.take():
                self._start(due[0])

    def _take(self, run: _Run, follower: LoadFollower) -> None:
        table = run.entry.table
        if run.loaded is not None:
            self._due_s.pop(table, None)
            log.info("table loaded", table=table, event_id=run.loaded.event_id, files=run.loaded.files)
            follower.finish(run.loaded)
            return
        error = run.error or Transient("the load ended without a result", table=table)
        self._due_s[table] = self._clock() + _BACKOFF.pause_s(run.entry.tries + 1)
        log.warning("the load of a table failed and will be repeated", table=table, reason=str(error))
        follower.fail(table, error)

    def _start(self, entry: TableLoad) -> None:
        run = _Run(entry)
        run.thread = threading.Thread(
            target=self._main, args=(run,), name=f"tideline-load-{entry.table}", daemon=True
        )
        self._run = run
        run.thread.start()

    def _main(self, run: _Run) -> None:
        try:
            self._load_table(run)
        finally:
            self._context.long_work.loads.leave()

    def _load_table(self, run: _Run) -> None:
        try:
            with (
                closing(self._context.source.clone()) as source,
                closing(self._context.target.clone()) as target,
                closing(self._open_pool()) as copies,
            ):
                tools = LoadTools(
                    policy=self._context.policy,
                    source=source,
                    target=target,
                    files=self._context.files,
                    copies=copies,
                    settings=self._settings,
                    stopping=run.stopping,
                    beat=lambda: None,
                    jobs=self._context.jobs,
                )
                run.loaded = self._load(run.entry, tools, self._progress)
        except TidelineError as error:
            run.error = error
        except Exception as error:  # noqa: BLE001 - last handler of the thread: the load is reported and repeated
            run.error = Inconsistent("the load of a table failed unexpectedly", reason=repr(error))

    def find_next_try_s(self, table: str) -> float | None:
        """Return the Unix time of the next try of a failed load, None if the load has not failed.
        Thread-safe.
        """
        due_s = self._due_s.get(table)
        return None if due_s is None else time.time() + max(0.0, due_s - self._clock())

    def hurry(self, table: str) -> None:
        """Retry a failed load of ``table`` immediately."""
        self._due_s.pop(table, None)

    def cancel(self, table: str) -> None:
        """Stop the load of ``table``, if it runs, wait until it no longer touches anything, and discard its
        result.

        Raises Transient if it does not end: replay must not change the table meanwhile, and repeats the
        event.
        """
        self._due_s.pop(table, None)
        if self._run is not None and self._run.entry.table == table:
            self.stop()

    def stop(self) -> None:
        """Stop the load that runs, and wait for it; raise Transient if it does not end in time."""
        run, thread = self._run, None if self._run is None else self._run.thread
        if run is None or thread is None:
            return
        run.stopping.set()
        thread.join(JOIN_S)
        if thread.is_alive():
            raise Transient("the load of a table does not stop", table=run.entry.table, waited_s=JOIN_S)
        self._run = None
