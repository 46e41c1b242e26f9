"""The plan of a bootstrap: tables, partitions, files, bytes, and the transactions that it would wait for.

The plan only reads. It lists the files that readers of the source see now; a bootstrap that begins later may
find others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from handlers.replication.effects.databases import list_tables
from handlers.replication.loading.table.snapshot import SnapshotLost, TableSnapshot, list_snapshot_files
from handlers.replication.loading.table.source_changes import SourceChanges
from handlers.replication.loading.table.tools import LoadTools
from handlers.replication.loading.table.write_id_snapshot import WriteIdStates
from handlers.replication.policy.locations import list_row_directories
from handlers.replication.policy.replicability import MATERIALIZED_VIEW, is_view
from handlers.replication.target.objects import is_transactional
from handlers.replication.views.obstacles import find_source_obstacle
from handlers.structs.objects import Table
from state.errors import NotFound
from state.transactions.valid_write_ids import ValidWriteIds


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """One table of the plan. The field names are those of the JSON."""

    table: str
    kind: str
    """``transactional``, ``plain``, ``view`` or ``metadata only``; ``materialized view`` or
    ``not replicated``, with the ``reason``."""
    partitions: int = 0
    files: int = 0
    size_bytes: int = 0
    open_transactions: tuple[int, ...] = ()
    """Transactions that hold a write id of the table; its load would wait until they end."""
    reason: str | None = None
    """Why the table has no replica."""


def plan_bootstrap(tools: LoadTools) -> Iterator[PlannedTable]:
    """Yield the tables that a bootstrap of the policy would load now, by name, except those that vanish
    meanwhile.
    """
    for name in list_tables(tools.source, tools.policy):
        tools.step()
        try:
            yield _plan_table(name, tools)
        except (NotFound, SnapshotLost):
            continue


def _plan_table(name: str, tools: LoadTools) -> PlannedTable:
    source, db = tools.source, tools.policy.source_db
    table = source.get_table(db, name)
    obstacle = find_source_obstacle(table, tools.policy, source)
    if obstacle is not None:
        kind = "materialized view" if obstacle == MATERIALIZED_VIEW else "not replicated"
        return PlannedTable(name, kind, reason=obstacle.reason)
    if is_view(table):
        return PlannedTable(name, "view")
    if not tools.policy.copies_rows(name):
        partitions = len(source.partition_names(db, name)) if table.partitionKeys else 0
        return PlannedTable(name, "metadata only", partitions)
    holders: tuple[int, ...] = ()
    valid: ValidWriteIds | None = None
    if is_transactional(table):
        mark = source.highest_write_id(db, name)
        states = WriteIdStates(source, db, name, mark)
        holders = tuple(states.find_holders())
        readable = source.valid_write_ids([f"{db}.{name}"])[0]
        hidden = tuple(sorted(w for w in (*readable.open, *readable.aborted) if w <= mark))
        valid = ValidWriteIds(readable.table, mark, (), hidden)
    snapshot = TableSnapshot(-1, table, valid, SourceChanges(source, tools.policy, name, -1))
    partitions, files, size_bytes = _count(name, table, snapshot, tools)
    kind = "plain" if valid is None else "transactional"
    return PlannedTable(name, kind, partitions, files, size_bytes, holders)


def _count(name: str, table: Table, snapshot: TableSnapshot, tools: LoadTools) -> tuple[int, int, int]:
    """Return the numbers of partitions and files, and the bytes."""
    if not table.partitionKeys:
        listed = [
            file
            for directory in list_row_directories(table)
            for file in list_snapshot_files(snapshot, directory, tools)
        ]
        return 0, len(listed), sum(file.size_bytes for file in listed)
    partitions = files = size_bytes = 0
    for partition in tools.source.all_partitions(tools.policy.source_db, name):
        tools.step()
        listed = list_snapshot_files(snapshot, partition.sd.location, tools)
        partitions += 1
        files += len(listed)
        size_bytes += sum(file.size_bytes for file in listed)
    return partitions, files, size_bytes
