"""The metastore calls that a flat table needs, and their implementation on a Hive 4 metastore.

``MetastoreTable`` implements flat tables for all metastores. A Hive 4 metastore and the metastore inside
Spark (``spark_catalog``) differ only in the transport of calls and in compare-and-set; this protocol covers
the difference.

On Hive 4, compare-and-set is the metastore's own: fields 10 and 11 of ``alter_table_req``. Only the error
message reveals a lost race ("The table has been modified", reference: flat-tables-hive4.md §6). The server
must not count files for statistics (``DO_NOT_UPDATE_STATS``): the files of an hour change without the
metastore, so the counts would soon be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import NoneType
from typing import Final, Protocol
from urllib.parse import unquote

from handlers.metastore.calls import PlainCall
from handlers.metastore.client import Metastore
from handlers.structs.objects import Partition, Table
from state.errors import Conflict, InvalidRequest, NotFound


class Catalog(Protocol):
    """The calls that a flat table needs, with the names and errors of ``handlers.metastore.Metastore``."""

    def get_table(self, db: str, name: str) -> Table:
        """Return the table. Raises NotFound."""

    def create_table(self, table: Table) -> None:
        """Create a table. Raises AlreadyExists, or NotFound if the database does not exist."""

    def replace_table(self, table: Table, *, key: str, expected: str, narrows: bool = False) -> None:
        """Store ``table`` if the parameter ``key`` of the stored table is ``expected``; otherwise raise
        Conflict.

        With ``narrows``, switches off the metastore's check of column types for this call.
        """

    def partition_names(self, db: str, table: str) -> list[str]:
        """Return the names of all partitions."""

    def get_partitions(
        self, db: str, table: str, names: Sequence[str], *, with_columns: bool = True
    ) -> list[Partition]:
        """Return the partitions that exist."""

    def add_partition(self, partition: Partition) -> None:
        """Add a partition without counting its files; an existing one stays unchanged."""

    def replace_partition(self, partition: Partition) -> None:
        """Replace the partition that has the same values, without counting its files."""

    def delete_column_statistics(self, partition: Partition, name: str) -> None:
        """Delete the column statistics of the partition called ``name``, if there are any."""

    def drop_partitions(self, db: str, table: str, names: Sequence[str]) -> None:
        """Drop the partitions that exist; keep their files."""


TYPE_CHECK: Final = "hive.metastore.disallow.incompatible.col.type.changes"
"""The metastore's check that a column's type does not narrow."""
_SET_CONFIG: Final = PlainCall("setMetaConf", NoneType, changes=False)
_UNCOUNTED: Final = {"DO_NOT_UPDATE_STATS": "true"}
_FEW: Final = 4
"""Up to this number, the catalog requests partitions one by one."""
_MODIFIED: Final = "The table has been modified"


class HiveCatalog:
    """The calls of ``Catalog`` on Tideline's own metastore client."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore

    def get_table(self, db: str, name: str) -> Table:
        """Return the table."""
        return self._metastore.get_table(db, name)

    def create_table(self, table: Table) -> None:
        """Create a table."""
        self._metastore.create_table(table, environment=_UNCOUNTED)

    def replace_table(self, table: Table, *, key: str, expected: str, narrows: bool = False) -> None:
        """Store ``table`` by compare-and-set. No CASCADE: partitions keep their own columns."""
        if narrows:
            with self._without_type_check():
                self.replace_table(table, key=key, expected=expected)
            return
        try:
            self._metastore.alter_table(
                table.dbName, table.tableName, table, environment=_UNCOUNTED, expected=(key, expected)
            )
        except InvalidRequest as error:
            if _MODIFIED not in str(error.context.get("reason")):
                raise
            raise Conflict(
                "another writer changed the table",
                table=f"{table.dbName}.{table.tableName}",
                expected=expected,
            ) from error

    @contextmanager
    def _without_type_check(self) -> Iterator[None]:
        """Switch the check off for this connection, because the metastore ignores it elsewhere (reference:
        flat-tables-hive4.md §2).
        """
        before = self._metastore.config_value(TYPE_CHECK, "true")
        # SLF001: the client has no method for the one call
        self._metastore._invoke(_SET_CONFIG, TYPE_CHECK, "false")  # noqa: SLF001
        try:
            yield
        finally:
            self._metastore._invoke(_SET_CONFIG, TYPE_CHECK, before)  # noqa: SLF001 - likewise

    def partition_names(self, db: str, table: str) -> list[str]:
        """Return the names of all partitions."""
        return self._metastore.partition_names(db, table)

    def get_partitions(
        self, db: str, table: str, names: Sequence[str], *, with_columns: bool = True
    ) -> list[Partition]:
        """Return the partitions that exist. Requests them one by one if there are few, which is eight times
        faster in Hive 4.2 for wide tables.
        """
        if len(names) > _FEW:
            return self._metastore.get_partitions(db, table, names, with_columns=with_columns)
        partitions = []
        for name in names:
            values = [unquote(part.partition("=")[2]) for part in name.split("/")]
            with suppress(NotFound):
                partitions.append(self._metastore.get_partition(db, table, values))
        return partitions

    def add_partition(self, partition: Partition) -> None:
        """Add the partition if it is missing."""
        self._metastore.add_partitions(
            partition.dbName, partition.tableName, [partition], environment=_UNCOUNTED
        )

    def replace_partition(self, partition: Partition) -> None:
        """Replace the partition."""
        self._metastore.alter_partitions(
            partition.dbName, partition.tableName, [partition], environment=_UNCOUNTED
        )

    def delete_column_statistics(self, partition: Partition, name: str) -> None:
        """Delete statistics column by column, because altering a partition keeps them, and no call deletes
        all of them.
        """
        db, table = partition.dbName, partition.tableName
        columns = [column.name for column in partition.sd.cols or []]
        statistics = self._metastore.partition_statistics(db, table, [name], columns)
        for each in statistics.get(name, ()):
            with suppress(NotFound):
                self._metastore.delete_partition_statistics(db, table, name, each.colName)

    def drop_partitions(self, db: str, table: str, names: Sequence[str]) -> None:
        """Drop the partitions that exist."""
        self._metastore.drop_partitions(db, table, names, delete_data=False, if_exists=True)
