"""A metastore in memory: the calls of ``streaming.table.catalog.Catalog`` on dictionaries, and flat tables on
it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from handlers.files.paths import Location, parse_location
from handlers.structs.objects import Partition, Table
from state.columns.slots import Layout
from state.errors import AlreadyExists, Conflict, NotFound
from streaming.table.hours import HourColumns
from streaming.table.metastore_table import MetastoreTable
from tests.builders.flat.local_storage import LocalStorage


class MemoryCatalog:
    """Responds as a metastore does; objects are copied in and out."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, str], Table] = {}
        self._partitions: dict[tuple[str, str], dict[str, Partition]] = {}

    def get_table(self, db: str, name: str) -> Table:
        if (db, name) not in self._tables:
            raise NotFound("no such table", table=f"{db}.{name}")
        return self._tables[db, name].copy()

    def create_table(self, table: Table) -> None:
        if (table.dbName, table.tableName) in self._tables:
            raise AlreadyExists("there is such a table", table=f"{table.dbName}.{table.tableName}")
        self._tables[table.dbName, table.tableName] = table.copy()

    def replace_table(self, table: Table, *, key: str, expected: str, narrows: bool = False) -> None:
        del narrows
        stored = self.get_table(table.dbName, table.tableName)
        if (stored.parameters or {}).get(key) != expected:
            raise Conflict("another writer changed the table", expected=expected)
        self._tables[table.dbName, table.tableName] = table.copy()

    def partition_names(self, db: str, table: str) -> list[str]:
        return sorted(self._of(db, table))

    def get_partitions(
        self, db: str, table: str, names: Sequence[str], *, with_columns: bool = True
    ) -> list[Partition]:
        del with_columns
        there = self._of(db, table)
        return [there[name].copy() for name in names if name in there]

    def add_partition(self, partition: Partition) -> None:
        self._of(partition.dbName, partition.tableName).setdefault(self._name(partition), partition.copy())

    def replace_partition(self, partition: Partition) -> None:
        there = self._of(partition.dbName, partition.tableName)
        assert self._name(partition) in there, partition.values
        there[self._name(partition)] = partition.copy()

    def delete_column_statistics(self, partition: Partition, name: str) -> None:
        """Do nothing: there are no statistics."""

    def drop_partitions(self, db: str, table: str, names: Sequence[str]) -> None:
        for name in names:
            self._of(db, table).pop(name, None)

    def _of(self, db: str, table: str) -> dict[str, Partition]:
        return self._partitions.setdefault((db, table), {})

    def _name(self, partition: Partition) -> str:
        keys = self._tables[partition.dbName, partition.tableName].partitionKeys or []
        pairs = zip(keys, partition.values, strict=True)
        return "/".join(f"{key.name}={value}" for key, value in pairs)


def a_flat_table(directory: Path, layout: Layout, columns: HourColumns | None = None) -> MetastoreTable:
    """Create the flat table ``db.flat`` below ``directory``."""
    table = MetastoreTable(MemoryCatalog(), "db", "flat", LocalStorage())
    table.create(layout, location=parse_location(str(directory / "flat")), columns=columns or HourColumns())
    return table


def an_hour_with_files(table: MetastoreTable, hour: int, *names: str, version: int = 1) -> Location:
    """Create the directory of a version of an hour, with files of one byte."""
    from pathlib import Path

    state = table.read()
    place = state.columns.directory(state.location, hour).child(f"v{version}")
    Path(place.path).mkdir(parents=True, exist_ok=True)
    for name in names:
        Path(place.path, name).write_bytes(b"x")
    return place
