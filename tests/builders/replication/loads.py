"""Loads of tables between two real clusters, without a daemon."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from handlers.replication.loading.load_table import load_table
from handlers.replication.loading.load_tools import LoadSettings, LoadTools
from handlers.replication.loading.table_loads import TableLoad


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.replication.loading.load_tools import LoadedTable
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
