"""A set of changes to the partition index within one store transaction; see ``index`` for the promise.

Rows and postings go to the transaction at once and are seen when it commits. What is kept in memory, the tables and their
columns, is shown by ``publish``, after the commit.

Every call may come again for what is known already, so a listing and the events since it began may overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.errors import NotFound
from state.partitions.index import records
from state.partitions.index.records import IndexedTable
from state.partitions.keys.column_types import parse_columns
from state.partitions.keys.partition_key import KeySchema
from state.partitions.keys.values import DEFAULT_PARTITION


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from state.partitions.keys.column_types import PartitionColumn
    from state.store import Transaction


class IndexChange:
    """What happened to partitions and tables, in order."""

    def __init__(
        self,
        txn: Transaction,
        tables: Mapping[str, IndexedTable],
        publish: Callable[[Mapping[str, IndexedTable | None]], None],
    ) -> None:
        self._txn = txn
        self._before = tables
        self._publish = publish
        self._touched: dict[str, IndexedTable | None] = {}

    def publish(self) -> None:
        """Show the changes to readers; to be called once, when the transaction has committed."""
        self._publish(self._touched)

    def follows(self, name: str) -> bool:
        """Whether a table is indexed, this change included."""
        return self._current(name) is not None

    def follow(
        self, name: str, columns: Iterable[tuple[str, str]], default_partition: str = DEFAULT_PARTITION
    ) -> bool:
        """Index a table with these (name, type) pairs, empty; False, and nothing happens, where it is already with the same.

        A table whose columns changed starts empty: its partitions have to be loaded. Raises LimitExceeded for no columns
        or too many.
        """
        form = KeySchema(parse_columns(columns), default_partition)
        current = self._current(name)
        if current is not None and _is_same(current.form, form):
            return False
        self.forget(name)
        self._save(name, IndexedTable(records.draw_number(self._txn), form))
        return True

    def forget(self, name: str) -> None:
        """Forget a table and its partitions; an unknown one is no error."""
        current = self._current(name)
        if current is not None:
            records.clear(self._txn, current.number)
            records.forget_table(self._txn, name)
            self._touched[name] = None

    def rename(self, old: str, new: str) -> None:
        """Keep a table's partitions under a new name, at the price of one record; an unknown table is no error."""
        current = self._current(old)
        if current is not None and old != new:
            self.forget(new)
            records.forget_table(self._txn, old)
            self._touched[old] = None
            self._save(new, current)

    def add(self, name: str, values: Sequence[str], payload: bytes = b"") -> None:
        """A partition exists.

        ``payload`` is what the metastore would send for it; the index only keeps it. Raises NotFound where the table is not
        indexed, BadPartitionValue for another number of values than columns, LimitExceeded where they are too long.
        """
        records.put(self._txn, self._known(name), values, payload)

    def alter(self, name: str, values: Sequence[str], payload: bytes = b"") -> None:
        """A partition has other contents; one that is not known is added. Errors as ``add``."""
        self.add(name, values, payload)

    def drop(self, name: str, values: Sequence[str]) -> None:
        """A partition is gone; an unknown one is no error. Errors as ``add``."""
        records.delete(self._txn, self._known(name), values)

    def rename_partition(
        self, name: str, old: Sequence[str], new: Sequence[str], payload: bytes = b""
    ) -> None:
        """A partition has other values. Errors as ``add``."""
        self.drop(name, old)
        self.add(name, new, payload)

    def columns(self, name: str) -> tuple[PartitionColumn, ...]:
        """Return a table's partition columns, this change included; raise NotFound where it is not indexed."""
        return self._known(name).form.columns

    def payload(self, name: str, values: Sequence[str]) -> bytes | None:
        """Return what is kept of a partition, this change included; None where there is none. Errors as ``add``."""
        return self.payloads(name, [values])[0]

    def payloads(self, name: str, values: Sequence[Sequence[str]]) -> list[bytes | None]:
        """Return what is kept of each of some partitions, in one question to the store. Errors as ``add``."""
        table = self._known(name)
        found = records.get_each(self._txn, table, [table.form.row(one) for one in values])
        return [None if content is None else content[1] for content in found]

    def load(self, name: str, partitions: Iterable[tuple[Sequence[str], bytes]]) -> int:
        """Replace a table's partitions by these (values, payload) and return how many came. Errors as ``add``."""
        table, count = self._known(name), 0
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

    def _save(self, name: str, table: IndexedTable) -> None:
        self._touched[name] = table
        records.put_table(self._txn, name, table)


def _is_same(one: KeySchema, other: KeySchema) -> bool:
    return one.columns == other.columns and one.default_partition == other.default_partition
