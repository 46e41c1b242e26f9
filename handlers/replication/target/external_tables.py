"""The external tables that a policy copies, and the source directories of their files.

A cycle has to know the directories of all external tables, and those of partitions outside of their tables.
Reading all partitions each time would cost more than the cycle. The cycle therefore reads them once, and the
events that replay applies keep them up to date: most add partitions below their table and change nothing
here.

The read state is never older than the replayed one, because replay is behind the source. If an event arrives
while its table is being read, the next cycle reads the table again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from handlers.events import (
    DatabaseDropped,
    Event,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    TableAltered,
    TableCreated,
    TableDropped,
)
from handlers.files.paths import parse_location
from handlers.metastore.client import Metastore
from handlers.replication.policy.locations import PROVIDER, list_row_directories
from handlers.replication.target.objects import is_external, owns_data
from handlers.structs.objects import Partition, Table
from state.errors import BadInput, NotFound, TidelineError
from state.external.directories import TableDirectories, is_below, select_outermost
from state.pieces import in_pieces


TABLES_PAGE: Final = 100
PARTITIONS_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class _TableRead:
    """A table as it was read; ``directories`` is None if it has no files copied."""

    directories: TableDirectories | None
    load: object
    """The load of the table at that time; after a later load, the cycle reads the table again."""


class ExternalTables:
    """The external tables of one policy. ``note`` belongs to replay's thread, ``refresh`` to the cycle's
    thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[str, _TableRead] = {}
        self._noted: set[str] = set()
        """Tables that must be read again."""

    def note(self, event: Event) -> None:
        """Take the change of an applied event into account."""
        match event:
            case DatabaseDropped():
                with self._lock:
                    self._tables.clear()
            case TableAltered():
                if _moves_files(event):
                    self._forget(event.table)
            case TableCreated() | TableDropped():
                self._forget(event.table)
            case PartitionsAdded():
                self._add(event.table, (item.value for item in event.partitions))
            case PartitionsAltered():
                self._add(event.table, (item.value for item in event.after))
            case PartitionsDropped():
                self._drop_partitions(event.table)

    def _forget(self, table: str | None) -> None:
        with self._lock:
            self._noted.add(table or "")

    def _add(self, table: str | None, partitions: Iterator[Partition]) -> None:
        """Add the directories of partitions that are outside of the table's."""
        with self._lock:
            entry = self._tables.get(table or "")
            if entry is None:
                self._noted.add(table or "")
                return
            try:
                locations = [parse_location(each.sd.location) for each in partitions if each.sd.location]
            except BadInput:
                self._noted.add(table or "")
                return
            directories = entry.directories
            if directories is None:
                return
            outside = [str(each) for each in locations if not is_below(str(each), directories.root)]
            if outside:
                merged = replace(directories, outside=select_outermost((*directories.outside, *outside)))
                self._tables[directories.table] = _TableRead(merged, entry.load)

    def _drop_partitions(self, table: str | None) -> None:
        with self._lock:
            entry = self._tables.get(table or "")
            if entry is None or (entry.directories is not None and entry.directories.outside):
                self._noted.add(table or "")

    def refresh(
        self, source: Metastore, db: str, names: Sequence[str], load_of: Callable[[str], object]
    ) -> tuple[list[TableDirectories], dict[str, TidelineError]]:
        """Return the directories of the external tables among ``names``,
        and the errors of those whose location is not usable.

        ``load_of`` returns the load that a table's state on the target comes from. Reads only changed objects
        from the source.
        """
        loads = {name: load_of(name) for name in names}
        with self._lock:
            for name in (*self._noted, *(self._tables.keys() - loads.keys())):
                self._tables.pop(name, None)
            self._noted.clear()
            unread = [
                name
                for name, load in loads.items()
                if (entry := self._tables.get(name)) is None or entry.load != load
            ]
        errors: dict[str, TidelineError] = {}
        for piece in in_pieces(unread, TABLES_PAGE):
            for table in source.get_tables(db, piece):
                name = (table.tableName or "").lower()
                try:
                    directories = _read_directories(source, db, table)
                except BadInput as error:
                    errors[name] = error
                    continue
                except NotFound:
                    continue
                with self._lock:
                    self._tables[name] = _TableRead(directories, loads.get(name))
        with self._lock:
            entries = [entry for name, entry in sorted(self._tables.items()) if name in loads]
        return [entry.directories for entry in entries if entry.directories is not None], errors


def _moves_files(event: TableAltered) -> bool:
    """Whether the event may move the table's files; most alterations only change parameters."""
    try:
        before, after = event.before.value, event.after.value
    except BadInput:
        return True
    try:
        directories = list_row_directories(before), list_row_directories(after)
    except BadInput:
        return True
    return (before.tableName, before.tableType, directories[0]) != (
        after.tableName,
        after.tableType,
        directories[1],
    )


def _read_directories(source: Metastore, db: str, table: Table) -> TableDirectories | None:
    """Return the directories of a table; None if it is not external. Raises UnsafePath."""
    if not is_external(table) or not table.sd.location:
        return None
    name = (table.tableName or "").lower()
    root, *others = (str(parse_location(each)) for each in list_row_directories(table))
    partitions = _read_partition_directories(source, db, name) if table.partitionKeys else ()
    is_replaced = owns_data(table) or PROVIDER in (table.parameters or {})
    return TableDirectories.of(name, root, chain(others, partitions), is_replaced=is_replaced)


def expects_rows(source: Metastore, db: str, name: str, root: str) -> bool:
    """Whether the source has statistics with rows or files of a table,
    or partitions below its directory ``root``.
    """
    try:
        table = source.get_table(db, name)
    except NotFound:
        return False
    if not table.partitionKeys:
        counts = {key: value for key, value in (table.parameters or {}).items() if key in _COUNTS}
        if counts.get("numFiles") == counts.get("totalSize") == "0":
            counts.pop("numRows", None)
        return any(value.isdecimal() and int(value) for value in counts.values())
    return any(is_below(each, root) for each in _read_partition_directories(source, db, name))


_COUNTS: Final = {
    "numRows",
    "numFiles",
    "totalSize",
    "spark.sql.statistics.numRows",
    "spark.sql.statistics.totalSize",
}
"""Statistics that are above 0 only if a table has files. ``numRows`` is an exception: SET LOCATION to a
directory that does not exist resets Hive's other counts, and keeps this one.
"""


def _read_partition_directories(source: Metastore, db: str, table: str) -> Iterable[str]:
    names: Sequence[str] = ()
    with suppress(NotFound):
        names = source.partition_names(db, table)
    for piece in in_pieces(names, PARTITIONS_PAGE):
        for partition in source.get_partitions(db, table, piece, with_columns=False):
            if partition.sd.location:
                yield str(parse_location(partition.sd.location))
