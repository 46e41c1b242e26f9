"""The load of one table: copies it from the source as of one event, while everything else streams.

The steps, each repeatable after a crash:

1. Take the snapshot: event, write ids, definition (``snapshot``).
2. Create the table on the target, marked as incomplete (``target_table``).
3. List the files of the snapshot and read the statistics. Make sure that replay can apply everything that
   happened meanwhile on top. Copy the files and write the statistics. The load of a partitioned table
   proceeds page by page, in bounded memory: it adds the partitions of a page, copies their files, and alters
   them as far as necessary (``target_partitions``).
4. Copy the constraints. A foreign key needs both tables and the key that it refers to. Tables load in any
   order and several at a time, so each load adds the foreign keys of its table, and those that refer to it,
   if the other table exists already; the later of two loads adds the rest.
5. Make sure that the copied files are those of the same table, and not of a later one under its name.
6. Store the result in the table, give it its write ids, and remove the mark. A table without write ids gets
   its final definition by one call.

If the snapshot becomes unreadable, the load starts again as of a later event, and keeps the verified files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from handlers.failpoints import failpoint
from handlers.replication.effects.constraints import group_by_constraint, lower_names, rewrite_database
from handlers.replication.loading.reuse import has_directories, remove_other_directories
from handlers.replication.loading.table.copies import TableCopies
from handlers.replication.loading.table.snapshot import (
    SnapshotLost,
    TableSnapshot,
    list_snapshot_files,
    require_no_disruption,
    require_same_table,
    take_snapshot,
)
from handlers.replication.loading.table.statistics import (
    list_partitions,
    read_partition_statistics,
    read_table_statistics,
    write_statistics,
)
from handlers.replication.loading.table.target_partitions import TargetPartitions
from handlers.replication.loading.table.target_table import TargetTable
from handlers.replication.loading.table.tools import LoadProgress, LoadTools, SilentProgress
from handlers.replication.policy.locations import list_row_directories
from handlers.replication.policy.replicability import SWITCHED_OFF, is_view
from handlers.replication.tables.table_loads import LoadedTable, TableLoad
from handlers.replication.target.objects import owns_data
from handlers.replication.views.obstacles import find_source_obstacle
from handlers.structs.constraints import CONSTRAINT_KINDS, FOREIGN_KEY, PRIMARY_KEY, ConstraintKind
from handlers.structs.objects import Table
from state.errors import GapDetected, InvalidRequest, NotFound, SourceBusy
from state.pieces import in_pieces


SNAPSHOTS_MAX: Final = 10
"""Snapshots that one call takes before it fails with SourceBusy."""
PARTITIONS_PAGE: Final = 500


def load_table(load: TableLoad, tools: LoadTools, progress: LoadProgress | None = None) -> LoadedTable:
    """Load the table of ``load`` and return the event and write id of the load; a repetition continues an
    unfinished load.

    It runs in any thread and uses nothing of the replay's context. If the source has no such table, the load
    drops the target's, and the result says so. The caller records the result with ``TableLoads.finish``, and
    replays the table's events after it.

    Raises TransactionsOpen, SourceBusy, Interrupted and other transient errors: the table keeps waiting, and
    a later call tries again. Other errors are the table's own, such as UnsafePath.
    """
    tools.step()
    return _TableLoader(load, tools, progress or SilentProgress()).run()


class _TableLoader:
    """One call of ``load_table``."""

    def __init__(self, load: TableLoad, tools: LoadTools, progress: LoadProgress) -> None:
        self._table = load.table
        self._tools = tools
        self._progress = progress
        self._target = TargetTable(load, tools)
        self._partitions = TargetPartitions(load.table, tools)
        self._copies = TableCopies(load.table, tools, progress)
        self._copies_rows = tools.policy.copies_rows(load.table)
        self._has_leftovers = False

    def run(self) -> LoadedTable:
        result = self._target.find_result()
        if result is not None:
            return self._show(result)
        reasons: list[str] = []
        for _ in range(SNAPSHOTS_MAX):
            try:
                return self._load()
            except (SnapshotLost, GapDetected) as lost:  # a later snapshot needs no purged event
                reasons.append(str(lost))
                self._progress.restarted(self._table, str(lost))
        raise SourceBusy(
            "the table changed during every attempt to load it",
            table=f"{self._tools.policy.source_db}.{self._table}",
            attempts=len(reasons),
            reason=reasons[-1],
        )

    def _load(self) -> LoadedTable:
        self._copies.start_again()
        snapshot = take_snapshot(self._table, self._tools, self._progress)  # step 1
        failpoint("load.after-snapshot")
        table = snapshot.table
        obstacle = None
        if table is not None:
            obstacle = find_source_obstacle(table, self._tools.policy, self._tools.source)
        if table is None or obstacle is not None:
            if obstacle != SWITCHED_OFF:  # otherwise the target keeps its current rows
                self._target.remove_replicated()
            return LoadedTable(self._table, snapshot.event_id, exists=False, obstacle=obstacle)
        target = self._target.create(snapshot)  # step 2
        if table.partitionKeys:
            self._load_partitions(snapshot, target)  # step 3
        elif not is_view(table) and self._copies_rows:
            self._load_files(snapshot, target)  # step 3
        failpoint("load.after-files")
        if not is_view(table):
            load_constraints(self._table, self._tools)  # step 4
        require_same_table(snapshot.changes)  # step 5
        return self._complete(snapshot, target)  # step 6

    def _load_files(self, snapshot: TableSnapshot, target: Table) -> None:
        """Copy the files and statistics of a table without partitions."""
        assert snapshot.table is not None
        places = list_row_directories(target)
        listed = [
            (list_snapshot_files(snapshot, directory, self._tools), place)
            for directory, place in zip(list_row_directories(snapshot.table), places, strict=False)
        ]
        statistics = read_table_statistics(self._table, snapshot, self._tools)
        require_no_disruption(snapshot.changes)
        is_elsewhere = places != (target.sd.location,)  # in a directory that the metastore does not create
        root = self._tools.policy.external_base if is_elsewhere else target.sd.location
        self._copies.copy(listed, root)
        write_statistics(self._table, statistics, snapshot, self._tools)

    def _load_partitions(self, snapshot: TableSnapshot, target: Table) -> None:
        """Copy all partitions, with their files and statistics."""
        source, db = self._tools.source, self._tools.policy.source_db
        names = source.partition_names(db, self._table)
        self._has_leftovers |= has_directories(self._tools.files, target.sd.location)
        self._partitions.drop_others(target, frozenset(names))
        for piece in in_pieces(names, PARTITIONS_PAGE):
            self._tools.step()
            page = piece
            page_partitions = source.get_partitions(db, self._table, page)
            if len(page_partitions) < len(page):
                raise SnapshotLost("a partition was dropped")
            partitions = self._partitions.put(target, page_partitions, snapshot)
            if not self._copies_rows:
                require_no_disruption(snapshot.changes)
                self._partitions.complete(partitions, (), snapshot)
                continue
            listed = [
                (list_snapshot_files(snapshot, each.source_location, self._tools), each.location)
                for each in partitions
            ]
            names_here = [each.name for each in partitions]
            statistics = read_partition_statistics(self._table, names_here, snapshot, self._tools)
            require_no_disruption(snapshot.changes)
            self._copies.copy(listed, target.sd.location)
            write_statistics(self._table, statistics, snapshot, self._tools)
            self._partitions.complete(partitions, list_partitions(statistics), snapshot)
            failpoint("load.after-partitions")
        if self._has_leftovers and self._copies_rows and owns_data(target) and target.sd.location is not None:
            self._tools.target.guard()
            remove_other_directories(
                self._tools.files, target.sd.location, self._partition_paths(target, names)
            )

    def _partition_paths(self, target: Table, names: Sequence[str]) -> set[str]:
        """Return the paths of the partitions below the directory of their table."""
        root = f"{target.sd.location}/"
        paths = set(names)
        for page in in_pieces(names, PARTITIONS_PAGE):
            for each in self._tools.target.get_partitions(self._tools.policy.target_db, self._table, page):
                location = each.sd.location or ""
                if location.startswith(root):
                    paths.add(location[len(root) :])
        return paths

    def _complete(self, snapshot: TableSnapshot, target: Table) -> LoadedTable:
        result = LoadedTable(
            self._table, snapshot.event_id, snapshot.write_id, self._copies.files, self._copies.size_bytes
        )
        if snapshot.write_id == 0:
            self._target.complete_without_write_ids(snapshot, target.sd.location)
            return result
        self._target.store_result(snapshot, target.sd.location, result)
        return self._show(result)

    def _show(self, result: LoadedTable) -> LoadedTable:
        """Show the rows and remove the mark; repeatable, because the table stores the result."""
        self._target.show_write_ids(result)
        self._target.finish()
        return result


def load_constraints(table: str, tools: LoadTools) -> None:
    """Add the constraints of the source's table to the target's, and foreign keys for which both tables
    exist.
    """
    policy = tools.policy
    constraints = {
        kind: columns
        for kind in CONSTRAINT_KINDS
        if kind is not FOREIGN_KEY and (columns := tools.source.constraints(kind, policy.source_db, table))
    }
    if constraints:
        names_on_target = lower_names(tools.target.constraint_names(policy.target_db, table))
        for kind, columns in constraints.items():
            _add_missing(kind, columns, names_on_target, tools)
    load_foreign_keys(table, tools)
    for name in {key.fktable_name for key in tools.source.foreign_keys_to(policy.source_db, table)}:
        load_foreign_keys(name or "", tools)


def load_foreign_keys(table: str, tools: LoadTools) -> None:
    """Add the foreign keys that the target's table lacks,
    if the table and the keys that they refer to are there already.
    """
    policy = tools.policy
    columns = [
        column
        for column in tools.source.constraints(FOREIGN_KEY, policy.source_db, table)
        if policy.covers(column.pktable_db, column.pktable_name)
    ]
    if not columns or not _exists(table, tools):
        return
    columns = [column for column in columns if _has_key(column.pktable_name, tools)]
    names_on_target = lower_names(tools.target.constraint_names(policy.target_db, table))
    with suppress(InvalidRequest):  # the load of the other table adds the same foreign key at the same time
        _add_missing(FOREIGN_KEY, columns, names_on_target, tools)


def _exists(table: str, tools: LoadTools) -> bool:
    with suppress(NotFound):
        tools.target.get_table(tools.policy.target_db, table)
        return True
    return False


def _has_key(table: str | None, tools: LoadTools) -> bool:
    """Whether the target has the table with its primary key; without the table or the key, Hive answers
    the addition of a foreign key with an internal error.
    """
    return _exists(table or "", tools) and bool(
        tools.target.constraints(PRIMARY_KEY, tools.policy.target_db, table or "")
    )


def _add_missing(
    kind: ConstraintKind[Any], columns: Iterable[Any], names_on_target: set[str], tools: LoadTools
) -> None:
    """Add the constraints that the target does not have yet."""
    for name, group in group_by_constraint(kind, columns).items():
        rewritten = [
            rewrite_database(column, tools.policy.source_db, tools.policy.target_db) for column in group
        ]
        if name not in names_on_target and all(rewritten):
            tools.target.add_constraint(kind, group)
