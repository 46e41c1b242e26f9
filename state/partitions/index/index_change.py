"""Changes to the partition index within one store transaction.

Rows and postings go into the transaction at once and become visible when it commits. Memory holds the tables
and their columns; ``publish`` makes their changes visible after the commit.

Repeating a call is harmless: a listing and the events since it began may overlap.

Each transaction that writes rows of a table gives the table a new version. Readers may keep results derived
from the rows of one version. A store across a network has no such readers, and no versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from state.errors import NotFound
from state.partitions.index import records
from state.partitions.index.records import IndexedTable
from state.partitions.keys.column_types import PartitionColumn, parse_columns
from state.partitions.keys.partition_key import KeySchema
from state.shared_tables import SharedTables
from state.store import Transaction


class IndexChange:
    """The changes of one transaction to tables and partitions, in order."""

    def __init__(
        self,
        txn: Transaction,
        tables: SharedTables[IndexedTable],
        publish: Callable[[Mapping[str, IndexedTable | None]], None],
        *,
        gives_versions: bool = True,
    ) -> None:
        self._txn = txn
        self._before = tables
        self._publish = publish
        self._touched: dict[str, IndexedTable | None] = {}
        self._gives_versions = gives_versions
        self._version = b""
        self._versioned: set[int] = set()
        self.has_discarded = False

    def publish(self) -> None:
        """Make the changes visible to readers; call it once, after the commit of the transaction."""
        self._publish(self._touched)

    def follows(self, name: str) -> bool:
        """Whether the index has a table, including this change."""
        return self._current(name) is not None

    def follow(self, name: str, columns: Iterable[tuple[str, str]]) -> bool:
        """Index a table with these (name, type) pairs; return False if the index already has it with the same
        columns.

        A new table, or one with changed columns, starts empty: load its partitions. Raises LimitExceeded for
        a table without columns or with too many.
        """
        schema = KeySchema(parse_columns(columns))
        current = self._current(name)
        if current is not None and _is_same(current.key_schema, schema):
            return False
        self.forget(name)
        self._save(name, IndexedTable(records.NUMBERS.draw(self._txn), schema))
        self._begin_writing(name)
        return True

    def forget(self, name: str) -> None:
        """Remove a table; its partitions go later (``Numbers.sweep``). An unknown one is not an error."""
        current = self._current(name)
        if current is not None:
            records.NUMBERS.discard(self._txn, current.number)
            self.has_discarded = True
            records.forget_table(self._txn, name)
            if self._gives_versions:
                self._txn.delete(records.version_key(current.number))
                self._versioned.discard(current.number)
            self._touched[name] = None

    def rename(self, old: str, new: str) -> None:
        """Rename a table by writing its record; an unknown one is not an error."""
        current = self._current(old)
        if current is not None and old != new:
            self.forget(new)
            records.forget_table(self._txn, old)
            self._touched[old] = None
            self._save(new, current)

    def add(self, name: str, values: Sequence[str], payload: bytes = b"") -> None:
        """Add a partition, or replace its payload.

        The index stores ``payload`` without reading it. Raises NotFound for an unknown table,
        BadPartitionValue if the numbers of values and columns differ, LimitExceeded if the values are too
        long.
        """
        records.put(self._txn, self._begin_writing(name), values, payload)

    def alter(self, name: str, values: Sequence[str], payload: bytes = b"") -> None:
        """Replace the payload of a partition; add an unknown one. Raises as ``add``."""
        self.add(name, values, payload)

    def drop(self, name: str, values: Sequence[str]) -> None:
        """Remove a partition; an unknown one is not an error. Raises as ``add``."""
        records.delete(self._txn, self._begin_writing(name), values)

    def rename_partition(
        self, name: str, old: Sequence[str], new: Sequence[str], payload: bytes = b""
    ) -> None:
        """Change the values of a partition. Raises as ``add``."""
        self.drop(name, old)
        self.add(name, new, payload)

    def columns(self, name: str) -> tuple[PartitionColumn, ...]:
        """Return a table's partition columns, including this change; raise NotFound for an unknown table."""
        return self._known(name).key_schema.columns

    def payload(self, name: str, values: Sequence[str]) -> bytes | None:
        """Return the payload of a partition, including this change;
        None if it does not exist. Raises as ``add``.
        """
        return self.payloads(name, [values])[0]

    def payloads(self, name: str, values: Sequence[Sequence[str]]) -> list[bytes | None]:
        """Return the payload of each partition, or None, in one read. Raises as ``add``."""
        table = self._known(name)
        contents = records.get_each(self._txn, table, [table.key_schema.row(one) for one in values])
        return [None if content is None else content[1] for content in contents]

    def load(self, name: str, partitions: Iterable[tuple[Sequence[str], bytes]]) -> int:
        """Replace a table's partitions by these (values,
        payload) and return their number. Raises as ``add``.
        """
        table, count = self._begin_writing(name), 0
        records.clear(self._txn, table.number)
        for values, payload in partitions:
            records.put(self._txn, table, values, payload)
            count += 1
        return count

    def _current(self, name: str) -> IndexedTable | None:
        return self._touched[name] if name in self._touched else self._before.get(name)

    def _known(self, name: str) -> IndexedTable:
        current = self._current(name)
        if current is None:
            raise NotFound("the table is not in the partition index", table=name)
        return current

    def _begin_writing(self, name: str) -> IndexedTable:
        """Return a table whose rows will change,
        with a version that this transaction has not published yet.
        """
        table = self._known(name)
        if self._gives_versions and table.number not in self._versioned:
            self._versioned.add(table.number)
            self._version = self._version or records.draw_version()
            records.put_version(self._txn, table.number, self._version)
        return table

    def _save(self, name: str, table: IndexedTable) -> None:
        self._touched[name] = table
        records.put_table(self._txn, name, table)


def _is_same(one: KeySchema, other: KeySchema) -> bool:
    return one.columns == other.columns and one.default_partition == other.default_partition
