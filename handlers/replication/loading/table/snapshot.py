"""The snapshot of one table at the source: as of which event, which write ids, and which files they have.

1. Read the source's newest event: the load is as of this event.
2. Read the highest write id, and lower it to the allocations up to the event.
3. Wait until none of these write ids is open.
4. List the files of the committed ones in each directory. A directory that was compacted or replaced beyond
   them makes the snapshot unreadable (SnapshotLost), and so does a change that replay cannot apply on top of
   the snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from handlers.files.table_listing import ListedFile, TableDirectory
from handlers.replication.loading.table.source_changes import (
    SourceChanges,
    find_disruption,
    find_lowest_allocation,
    find_replacement,
)
from handlers.replication.loading.table.tools import LoadProgress, LoadTools
from handlers.replication.loading.table.write_id_snapshot import WriteIdStates, wait_for_open_write_ids
from handlers.replication.policy.replicability import require_write_ids
from handlers.replication.target.objects import is_external, is_transactional
from handlers.structs.objects import Table
from handlers.structs.transactions import TxnState
from state.errors import NotFound
from state.transactions.acid_directories import is_hidden_original, select_directories
from state.transactions.valid_write_ids import ValidWriteIds


_STREAMED: Final = re.compile(r"delta_\d{1,19}_\d{1,19}", re.ASCII)


# N818: an outcome that the load handles, never raised out of this package
class SnapshotLost(Exception):  # noqa: N818
    """A change of the table made the snapshot unreadable; take a later one."""


@dataclass(slots=True)
class TableSnapshot:
    """A table as of ``event_id``. ``table`` is None if the source had no such table then."""

    event_id: int
    table: Table | None
    valid: ValidWriteIds | None
    """The write ids of a transactional table; none is open."""
    changes: SourceChanges

    @property
    def write_id(self) -> int:
        """The highest write id of the snapshot; 0 for a table without transactions."""
        return 0 if self.valid is None else self.valid.high_water_mark


def take_snapshot(table: str, tools: LoadTools, progress: LoadProgress) -> TableSnapshot:
    """Take the snapshot of a table (steps 1 to 3); raises SnapshotLost, TransactionsOpen and Interrupted."""
    source, db = tools.source, tools.policy.source_db
    event_id = source.current_event_id()  # step 1
    changes = SourceChanges(source, tools.policy, table, event_id)
    try:
        definition = source.get_table(db, table)
    except NotFound:
        require_no_disruption(changes)
        return TableSnapshot(event_id, None, None, changes)
    if not is_transactional(definition) or not tools.policy.copies_rows(table):
        require_no_disruption(changes)
        return TableSnapshot(event_id, definition, None, changes)
    require_write_ids(definition, source.hive_version)
    mark = source.highest_write_id(db, table)
    events = changes.read_new()
    _refuse(find_disruption(events))
    lowest = find_lowest_allocation(events)
    mark = mark if lowest is None else min(mark, lowest - 1)  # step 2
    if mark == 0:  # nothing to wait for, and the definition is not older than the event
        return TableSnapshot(event_id, definition, ValidWriteIds(f"{db}.{table}", 0), changes)
    states = WriteIdStates(source, db, table, mark)
    wait_for_open_write_ids(states, table, tools, progress)  # step 3
    valid = states.read_ended()
    definition = _read_again(table, tools)
    require_no_disruption(changes)
    return TableSnapshot(event_id, definition, valid, changes)


def _read_again(table: str, tools: LoadTools) -> Table:
    """Read the table's current definition, after the wait."""
    try:
        return tools.source.get_table(tools.policy.source_db, table)
    except NotFound as error:
        raise SnapshotLost("the table was dropped or renamed") from error


def list_snapshot_files(snapshot: TableSnapshot, location: str | None, tools: LoadTools) -> list[ListedFile]:
    """Return the files of the snapshot in the directory of the table or of one partition (step 4);
    raises SnapshotLost.
    """
    if location is None:
        return []
    assert snapshot.table is not None
    is_in_cycles = is_external(snapshot.table) and tools.policy.external_base is not None
    directory = TableDirectory(
        tools.files, location, allowed=tools.copies.allowed, skips_unsafe=is_in_cycles
    )  # the cycles report unusable names
    valid = snapshot.valid
    try:
        if valid is None:
            return directory.read_files(directory.names)
        files = _read_selected(snapshot, directory, tools)
        _require_finished(files)
        return [each for each in files if not is_hidden_original(each.file.subdir, valid)]
    except NotFound as error:
        raise SnapshotLost(f"a directory vanished: {error.context.get('path')}") from error


def _require_finished(files: Iterable[ListedFile]) -> None:
    """Raise SnapshotLost if a stream has not written the file of a committed transaction yet.

    Its file stays empty until it begins the next transaction (reference: hive-3.1-source.md §1). Streamed
    deltas have no statement's number; other statements leave no empty file in a full-ACID table.
    """
    for each in files:
        directory, _, name = f"{each.file.subdir}/{each.file.uri.rpartition('/')[2]}".partition("/")
        if each.size_bytes == 0 and name.startswith("bucket_") and _STREAMED.fullmatch(directory):
            raise SnapshotLost(f"a stream has not finished {directory}/{name}")


def _read_selected(
    snapshot: TableSnapshot,
    directory: TableDirectory,
    tools: LoadTools,
    ignored: frozenset[str] = frozenset(),
) -> list[ListedFile]:
    """Return the files of the snapshot;
    ``ignored`` are bases that Hive ignores, because they have no files.
    """
    names = _select_names(snapshot, directory, tools, ignored)
    files = directory.read_files(names)
    filled = {each.file.subdir.partition("/")[0] for each in files}
    bases = (name for name in names if name.startswith("base_") and name not in filled)
    for base in bases:
        if directory.is_ignored_base(base):
            return _read_selected(snapshot, directory, tools, ignored | {base})
    return files


def _select_names(
    snapshot: TableSnapshot, directory: TableDirectory, tools: LoadTools, ignored: frozenset[str]
) -> list[str]:
    """Return the names in the snapshot: the directories of committed writes, and originals if no base
    replaced them.
    """
    assert snapshot.valid is not None
    write_directories = directory.read_acid_directories()
    acid_names = {each.name for each in write_directories}
    originals = [name for name in directory.names if name not in acid_names]
    acid = [each for each in write_directories if each.name not in ignored]
    if not acid:
        return originals
    info = tools.source.open_txns_info()
    unfinished = {txn.id for txn in info.open_txns if txn.state in {TxnState.OPEN, TxnState.ABORTED}}
    selected = select_directories(
        acid,
        snapshot.valid,
        is_ended=lambda txn_id: txn_id <= info.txn_high_water_mark and txn_id not in unfinished,
        is_committed=_CurrentWriteIds(snapshot.valid.table, tools).is_committed,
    )
    if selected.beyond is not None:
        raise SnapshotLost(f"directory {selected.beyond} replaced some of the files")
    return [*(originals if selected.originals else ()), *selected.names]


class _CurrentWriteIds:
    """The states of write ids above the snapshot: the first call reads them, and later calls use the same
    answer.
    """

    def __init__(self, name: str, tools: LoadTools) -> None:
        self._name = name
        self._tools = tools
        self._valid: ValidWriteIds | None = None

    def is_committed(self, write_id: int) -> bool:
        """Whether readers see the write id, or may see it because Hive's list does not say."""
        if self._valid is None:
            self._valid = self._tools.source.valid_write_ids([self._name])[0]
        return self._valid.is_visible(write_id)


def require_no_disruption(changes: SourceChanges) -> None:
    """Raise SnapshotLost if the table changed since the last look in a way that replay cannot apply on
    top.
    """
    _refuse(find_disruption(changes.read_new()))


def require_same_table(changes: SourceChanges) -> None:
    """Raise SnapshotLost if the name may belong to another table since the last look."""
    _refuse(find_replacement(changes.read_new()))


def _refuse(reason: str | None) -> None:
    if reason is not None:
        raise SnapshotLost(reason)
