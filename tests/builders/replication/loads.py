"""Loads of tables between two real clusters, without a daemon."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from handlers.replication.loading.bootstrap_run import SilentBootstrap
from handlers.replication.loading.table.load import load_table
from handlers.replication.loading.table.tools import LoadSettings, LoadTools
from handlers.replication.tables.table_loads import LoadedTable, TableLoad
from tests.builders.replication.replica import Replica


@dataclass
class RecordedProgress:
    """Remembers what loads report."""

    files: int = 0
    size_bytes: int = 0
    waited_for: list[int] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)

    def waiting(self, table: str, txn_ids: Sequence[int]) -> None:  # noqa: ARG002 - part of the port
        self.waited_for.extend(txn_ids)

    def listed(self, table: str, files: int, size_bytes: int) -> None:
        """Ignore it."""

    def copied(self, table: str, files: int, size_bytes: int) -> None:  # noqa: ARG002 - part of the port
        self.files += files
        self.size_bytes += size_bytes

    def restarted(self, table: str, reason: str) -> None:
        self.restarts.append(f"{table}: {reason}")


class Interleaved(SilentBootstrap):
    """Runs one statement at the source at each step of a bootstrap, in whatever thread reports it."""

    def __init__(self, statements: Iterable[Callable[[], object]]) -> None:
        self._statements = list(statements)
        self._lock = threading.Lock()

    def listed(self, table: str, files: int, size_bytes: int) -> None:  # noqa: ARG002 - part of the port
        self.run_next()

    def copied(self, table: str, files: int, size_bytes: int) -> None:  # noqa: ARG002 - part of the port
        self.run_next()

    def finished(self, table: LoadedTable) -> None:  # noqa: ARG002 - part of the port
        self.run_next()

    def run_next(self) -> bool:
        """Run the next statement; return whether there was one."""
        with self._lock:
            if not self._statements:
                return False
            self._statements.pop(0)()
            return True

    def run_rest(self) -> None:
        """Run what is left."""
        while self.run_next():
            pass


def load_tools(replica: Replica, settings: LoadSettings | None = None) -> LoadTools:
    """Return tools with the clients and copies of ``replica``."""
    return LoadTools(
        policy=replica.policy,
        source=replica.source,
        target=replica.target,
        files=replica.context.files,
        copies=replica.context.copies,
        settings=settings or LoadSettings(poll_s=0.05),
        stopping=threading.Event(),
        beat=lambda: None,
    )


def load_waiting_tables(replica: Replica) -> list[str]:
    """Load the tables that wait while the policy is followed, and let them catch up; return their names."""
    tools = load_tools(replica)
    names = []
    for load in replica.projection.loads.to_load():
        replica.projection.loads.finish(load_table(load, tools))
        names.append(load.table)
    while replica.projection.loads.catch_up(lambda after, upto: replica.events(after, upto=upto)):
        pass
    return names


def waiting_load(table: str) -> TableLoad:
    """Return a load with an id of its own."""
    return TableLoad(table, uuid.uuid4().hex, "bootstrap", 0)


def load_all(replica: Replica, progress: RecordedProgress | None = None) -> dict[str, LoadedTable]:
    """Load every table of the source's database, one after another, views last."""
    tools = load_tools(replica)
    names = replica.source.table_names(replica.policy.source_db)
    views = {
        n for n in names if "VIEW" in (replica.source.get_table(replica.policy.source_db, n).tableType or "")
    }
    ordered = [*(n for n in names if n not in views), *sorted(views)]
    return {name: load_table(waiting_load(name), tools, progress) for name in ordered}
