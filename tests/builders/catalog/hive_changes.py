"""Random changes of tables and partitions on a real metastore: each does nothing if it is not possible."""

from __future__ import annotations

import random

from dev.fixtures.hive_tables import a_partition, a_table
from dev.stack.errors import SqlFailed
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from handlers.structs.objects import FieldSchema, Table


NAMES = ("a", "b", "c")
FREE = "d"
"""A name that a table gets only by a rename."""
DAYS = (*(f"2015-01-{day:02}" for day in range(1, 9)), "9999-12-31", "latest", "a b/%")
KINDS = (
    *(8 * ["add"]),
    *(3 * ["alter"]),
    *(2 * ["drop"]),
    *(2 * ["rename_partition"]),
    *("exchange", "truncate", "add_column", "cascade", "rename_column"),
    *(2 * ["rename"]),
    *("swap", "recreate", "drop_table"),
)
_REFUSED_DIRECTORIES = ("The destination path already exists", "FileNotFoundException")
"""Hive refuses to exchange a partition without a directory, or for one that left its directory, as those of
external tables do."""


class HiveChanges:
    """Changes of the tables ``a``, ``b`` and ``c`` of one database, through the client and, where it has no
    call for it, in SQL."""

    def __init__(self, client: Metastore, sql: Session, database: str, drawn: random.Random) -> None:
        self._client = client
        self._sql = sql
        self._db = database
        self._drawn = drawn
        self.done: list[str] = []
        """The kinds of the changes that were possible."""

    def happen(self) -> None:
        """Make one change."""
        name, kind = self._drawn.choice((*NAMES, FREE)), self._drawn.choice(KINDS)
        if name not in self._client.table_names(self._db):
            if name == FREE:
                return
            kind = "create"
        if getattr(self, f"_{kind}")(name) is not False:
            self.done.append(kind)

    def _create(self, name: str, columns: list[FieldSchema] | None = None) -> None:
        table = a_table(self._db, name, partition_keys=("dt", "k"), external=True)
        table.sd.cols = columns or table.sd.cols
        self._client.create_table(table)

    def _add(self, name: str) -> None:
        table, values = self._client.get_table(self._db, name), self._values()
        self._client.add_partitions(self._db, name, [a_partition(table, *values)])

    def _alter(self, name: str) -> bool | None:
        values = self._held(name)
        if values is None:
            return False
        partition = self._client.get_partition(self._db, name, values)
        partition.parameters = {**(partition.parameters or {}), "n": str(self._drawn.random())}
        self._client.alter_partitions(self._db, name, [partition])
        return None

    def _drop(self, name: str) -> bool | None:
        values = self._held(name)
        if values is None:
            return False
        self._client.drop_partition(self._db, name, values)
        return None

    def _rename_partition(self, name: str) -> bool | None:
        old, new = self._held(name), self._values()
        if old is None or new in self._all(name):
            return False
        renamed = self._client.get_partition(self._db, name, old)
        renamed.values = list(new)
        self._client.rename_partition(self._db, name, old, renamed)
        return None

    def _exchange(self, name: str) -> bool | None:
        other, values = self._drawn.choice(NAMES), self._held(name)
        if values is None or other == name or other not in self._client.table_names(self._db):
            return False
        if not self._same_columns(name, other):
            self._client.drop_table(self._db, other)
            self._create(other, self._client.get_table(self._db, name).sd.cols)
        if values in self._all(other):
            return False
        spec = ", ".join(f"{key}='{value}'" for key, value in zip(("dt", "k"), values, strict=True))
        try:
            self._sql.run(
                f"ALTER TABLE {self._db}.{other} EXCHANGE PARTITION ({spec}) WITH TABLE {self._db}.{name}"
            )
        except SqlFailed as error:
            if not any(each in str(error) for each in _REFUSED_DIRECTORIES):
                raise
            return False
        return None

    def _truncate(self, name: str) -> None:
        self._client.truncate_table(self._db, name)

    def _add_column(self, name: str) -> None:
        self._change_columns(name, cascade=False)

    def _cascade(self, name: str) -> None:
        self._change_columns(name, cascade=True)

    def _rename_column(self, name: str) -> None:
        table = self._client.get_table(self._db, name)
        columns = list(table.sd.cols or [])
        table.sd.cols = [*columns[:-1], FieldSchema(name=f"r{len(self.done)}", type=columns[-1].type)]
        self._client.alter_table(self._db, name, table)

    def _rename(self, name: str, to: str | None = None) -> bool | None:
        new = to or self._drawn.choice((FREE, FREE, *NAMES))
        if new in self._client.table_names(self._db):
            return False
        table = self._client.get_table(self._db, name)
        table.tableName = new
        self._client.alter_table(self._db, name, table)
        return None

    def _swap(self, name: str) -> bool | None:
        other = self._drawn.choice(NAMES)
        if other == name or other not in self._client.table_names(self._db):
            return False
        for old, new in ((name, "swapped"), (other, name), ("swapped", other)):
            self._rename(old, new)
        return None

    def _recreate(self, name: str) -> None:
        self._client.drop_table(self._db, name)
        self._create(name)
        self._add(name)

    def _drop_table(self, name: str) -> None:
        self._client.drop_table(self._db, name)

    def _change_columns(self, name: str, *, cascade: bool) -> None:
        table: Table = self._client.get_table(self._db, name)
        table.sd.cols = [*(table.sd.cols or []), FieldSchema(name=f"c{len(self.done)}", type="int")]
        self._client.alter_table(self._db, name, table, environment={"CASCADE": "true"} if cascade else None)

    def _same_columns(self, name: str, other: str) -> bool:
        one, two = (self._client.get_table(self._db, each).sd.cols for each in (name, other))
        return one == two

    def _values(self) -> tuple[str, str]:
        return self._drawn.choice(DAYS), self._drawn.choice("xy")

    def _held(self, name: str) -> tuple[str, str] | None:
        held = sorted(self._all(name))
        return self._drawn.choice(held) if held else None

    def _all(self, name: str) -> set[tuple[str, str]]:
        found = self._client.all_partitions(self._db, name)
        return {(one.values[0], one.values[1]) for one in found}
