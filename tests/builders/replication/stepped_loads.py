"""The loads of a replica without a daemon: a test decides when they may end, and when replay takes over their
results."""

from __future__ import annotations

import threading

from handlers.files.copying.pool import CopyPool
from handlers.replication.loading.load_thread import LoadThread
from handlers.replication.loading.resume import ReadEvents
from handlers.replication.loading.table.load import load_table
from handlers.replication.loading.table.tools import LoadProgress, LoadSettings, LoadTools
from handlers.replication.tables.table_loads import LoadedTable, TableLoad
from tests.builders.daemon.loops import eventually
from tests.builders.replication.replica import Replica


class SteppedLoads:
    """The loads of a replica, which end only when the test allows it."""

    def __init__(self, replica: Replica, read: ReadEvents | None = None) -> None:
        """``read`` returns the events that tables apply after their load, by default those of the log."""
        self._replica = replica
        self._read = read or (lambda after, upto: replica.events(after, upto=upto))
        self._may_end = threading.Event()
        context = replica.context

        def open_pool() -> CopyPool:
            return CopyPool(context.build_copier(), workers=2)

        self.thread = LoadThread(context, open_pool, LoadSettings(poll_s=0.1), load=self._load)

    def _load(self, entry: TableLoad, tools: LoadTools, progress: LoadProgress) -> LoadedTable:
        loaded = load_table(entry, tools, progress)
        self._may_end.wait(60)
        return loaded

    def step(self) -> bool:
        """Work as between two batches; return whether no table waits any more."""
        loads = self._replica.projection.loads
        self.thread.step(loads)
        loads.catch_up(self._read)
        return not self._replica.context.tables.loads.waiting()

    def finish(self) -> None:
        """Let all loads end."""
        self._may_end.set()
        eventually(self.step, 60)
