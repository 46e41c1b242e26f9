"""A source and a target in memory, with one table whose partitions are made when they are read, for
measurements of memory.

It stores only the databases, the table and the highest write id. Its answers are as large as those of a real
metastore for such a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from dev.fixtures.hive_tables import ACID, a_partition, a_table
from handlers.structs.objects import Database, Partition, Table
from handlers.structs.transactions import GetOpenTxnsInfoResponse
from state.errors import NotFound
from state.transactions.valid_write_ids import ValidWriteIds


DB: Final = "shop"
TABLE: Final = "visits"
STATISTICS: Final = {
    "numFiles": "1",
    "numRows": "1000",
    "rawDataSize": "87000",
    "totalSize": "24031",
    "transient_lastDdlTime": "1700000000",
}


def name_partition(number: int) -> str:
    """Return the name of a partition."""
    return f"dt={number:09d}"


class SyntheticMetastore:
    """One side, with the calls that loads and replay make."""

    # ruff: noqa: D102 - the calls have the same meaning as those of ``Metastore``

    def __init__(self, directory: str, partitions: int = 0) -> None:
        self.guard: Callable[[], None] = lambda: None
        self._directory = directory
        self._partitions = partitions
        self._databases: dict[str, Database] = {}
        self._tables: dict[str, Table] = {}
        self._write_id = 0
        self.added = 0
        """Partitions that were added."""

    # ARG002: the signature of the real metastore
    def clone(self, *, guard: Callable[[], None] | None = None) -> SyntheticMetastore:  # noqa: ARG002
        """Return this object, because it has no connection."""
        return self

    def close(self) -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> Any:
        """Return an operation without effect, whose answer is an empty list."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_, **__: []

    def create_database(self, database: Database) -> None:
        self._databases[database.name or ""] = database

    def alter_database(self, name: str, database: Database) -> None:
        self._databases[name] = database

    def get_database(self, name: str) -> Database:
        if name not in self._databases:
            raise NotFound("no such database", name=name)
        return self._databases[name].copy()

    def create_table(self, table: Table, **_: object) -> None:
        table.sd.location = table.sd.location or f"file:{self._directory}/{table.tableName}"
        self._tables[table.tableName or ""] = table

    def alter_table(self, _db: str, name: str, table: Table, **_: object) -> None:
        self._tables[name] = table

    def get_table(self, _db: str, name: str) -> Table:
        if name not in self._tables:
            raise NotFound("no such table", name=name)
        return self._tables[name].copy()

    def table_names(self, _db: str) -> list[str]:
        return list(self._tables)

    def add_partitions(self, _db: str, _table: str, partitions: Sequence[Partition], **_: object) -> None:
        self.added += len(partitions)

    def partition_names(self, _db: str, _table: str) -> list[str]:
        return [name_partition(number) for number in range(self._partitions)]

    def get_partitions(self, _db: str, table: str, names: Sequence[str]) -> list[Partition]:
        return [self.get_partition_by_name(_db, table, name) for name in names]

    def get_partition_by_name(self, _db: str, table: str, name: str) -> Partition:
        return a_partition(self._tables[table], name.removeprefix("dt="), parameters=STATISTICS)

    def metastore_uuid(self) -> str:
        return "synthetic"

    def current_event_id(self) -> int:
        return 0

    def newest_txn_id(self) -> int:
        return 1

    def open_txns_info(self) -> GetOpenTxnsInfoResponse:
        return GetOpenTxnsInfoResponse(txn_high_water_mark=1, open_txns=[])

    def open_replayed(self, _policy: str, source_txn: int) -> int:
        return source_txn

    def allocate_replayed(self, _policy: str, _db: str, _table: str, _txn: int, write_id: int) -> int:
        self._write_id = write_id
        return write_id

    def highest_write_id(self, _db: str, _table: str) -> int:
        return self._write_id

    def valid_write_ids(self, tables: Sequence[str], **_: object) -> list[ValidWriteIds]:
        return [ValidWriteIds(table, self._write_id) for table in tables]

    def replayed_txns(self, _policy: str) -> dict[int, int]:
        return {}


def build_source(directory: str, partitions: int = 0) -> SyntheticMetastore:
    """Return a source with the table."""
    made = SyntheticMetastore(directory, partitions)
    made.create_database(Database(name=DB, parameters={}))
    made.create_table(a_table(DB, TABLE, partition_keys=["dt"], parameters=ACID, columns=COLUMNS))
    return made


COLUMNS: Final = [(f"column_{number}", "string") for number in range(20)]
