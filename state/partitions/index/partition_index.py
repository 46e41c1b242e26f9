"""Partition filters answered from the store, for many tables, kept true by "partition added" and "partition dropped".

The seam to whoever reads events: inside the store transaction that also writes the position, ``change(txn)`` gives an
``IndexChange`` that takes the calls; when the transaction has committed, ``publish()`` shows the result. Rows and postings are
written in that transaction, so no reader ever finds a posting without its row.

A filter is planned once and remembered (clients repeat themselves), read as ranges of keys, and checked key by key where the
ranges hold more than what matches. Answers come in the order of partition names, as the metastore gives them; what is cut off
by ``most`` is cut off in that order.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

from state.errors import NotFound
from state.partitions.filters.binder import bind
from state.partitions.filters.conditions import Check, Condition, Leaf, all_of, compile_check
from state.partitions.filters.dialect import HIVE_4, Dialect
from state.partitions.filters.parser import parse
from state.partitions.index import records
from state.partitions.index.explanation import (
    Explanation,
    describe_condition,
    describe_path,
    estimate_selectivity,
)
from state.partitions.index.index_change import IndexChange
from state.partitions.index.key_ranges import AccessPath, choose_path
from state.partitions.index.scan_plans import plan_filter
from state.partitions.keys import partition_key
from state.store import RemoteReader, prefix_end


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from state.partitions.index.records import IndexedTable
    from state.partitions.keys.column_types import PartitionColumn
    from state.store import Reader, Transaction


T = TypeVar("T", str, bytes, tuple[bytes, bytes])
ALL: Final = -1
"""As a number of partitions: no limit."""
_PREPARED_MAX: Final = 256
_PREPARED_CHARS_MAX: Final = 1 << 16
"""Longer filters are planned each time: remembering 256 of the longest would take a gigabyte."""


@dataclass(frozen=True, slots=True)
class IndexedPartition:
    """One partition: its name, its values as text, and what the metastore would send for it."""

    name: str
    values: tuple[str, ...]
    payload: bytes


@dataclass(frozen=True, slots=True)
class PreparedFilter:
    """A filter that is bound to a table and planned; it holds for as long as the table's columns do."""

    table: IndexedTable
    bound: Condition | None
    access: AccessPath
    residual: Condition | None
    """What is left to check of a key in the ranges; None where all match."""
    check: Check | None
    """The residual as a function of a key."""


class PartitionIndex:
    """The partition index of one projection over its store."""

    def __init__(self, reader: Reader) -> None:
        """Read which tables there are; raises StateCorrupt."""
        self._reader = reader
        self._remote = reader if isinstance(reader, RemoteReader) else None
        self._filtering = reader if isinstance(reader, FilteringReader) else None
        self._tables = dict(records.read_tables(reader))
        self._prepared: OrderedDict[tuple[int, str, Dialect], PreparedFilter] = OrderedDict()
        self.counts: Counter[str] = Counter()
        """Since start: ``plans``, ``ranges`` planned, ``caps-hit``, ``rows-scanned``, ``postings-dropped``, ``answers-unknown``."""

    def change(self, txn: Transaction) -> IndexChange:
        """Start a change within a store transaction; only one may be under way."""
        return IndexChange(txn, self._tables, self._publish)

    def tables(self) -> list[str]:
        """Return the names of all tables that are indexed, sorted."""
        return sorted(self._tables)

    def columns(self, table: str) -> tuple[PartitionColumn, ...]:
        """Return a table's partition columns; raise NotFound where it is not indexed."""
        return self.table(table).form.columns

    def prepare(self, table: str, text: str, dialect: Dialect = HIVE_4) -> PreparedFilter:
        """Plan a filter; raise NotFound, BadFilter or LimitExceeded."""
        known = self.table(table)
        key = (known.number, text, dialect)
        found = self._prepared.get(key)
        if found is not None:
            return found
        made = self._planned(known, text, dialect)
        if len(text) <= _PREPARED_CHARS_MAX:
            self._prepared[key] = made
            if len(self._prepared) > _PREPARED_MAX:
                self._prepared.popitem(last=False)
        return made

    def keys(self, prepared: PreparedFilter) -> Iterator[bytes]:
        """Yield the key of every partition that matches, in the order of the way it is read."""
        found = self._scanned(prepared)
        if self._remote is None or prepared.access.column is None:
            return found
        return with_rows(self._remote, prepared.table, found, self.counts)

    def _scanned(self, prepared: PreparedFilter) -> Iterator[bytes]:
        check, scanned = prepared.check, 0
        for start, end in self._ranges(prepared):
            for key in self._keys_between(prepared, start, end):
                scanned += 1
                if check is None or check(key):
                    yield key
        self.counts["rows-scanned"] += scanned

    def _keys_between(self, prepared: PreparedFilter, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the keys of one range, without some that cannot match where the store can leave them out."""
        if self._filtering is None or prepared.residual is None or prepared.access.column is not None:
            return self._reader.scan_keys(start, end)
        return self._filtering.scan_matching(start, end, prepared.residual)

    def _ranges(self, prepared: PreparedFilter) -> Iterator[tuple[bytes, bytes | None]]:
        prefix = prepared.table.prefix(prepared.access.column)
        for start, end in prepared.access.ranges:
            yield prefix + start, prefix_end(prefix) if end is None else prefix + end

    def count(self, prepared: PreparedFilter) -> int:
        """Return how many partitions match."""
        return sum(1 for _ in self.keys(prepared))

    def names(self, prepared: PreparedFilter, most: int = ALL) -> list[str]:
        """Return the names of the first ``most`` partitions that match, in the order of names."""
        found = (partition_key.name(key) for key in self.keys(prepared))
        return [name.decode(errors="surrogatepass") for name in first(found, most)]

    def partitions(self, prepared: PreparedFilter, most: int = ALL) -> list[IndexedPartition]:
        """Return the first ``most`` partitions that match, in the order of names."""
        found = first(
            ((partition_key.name(key), partition_key.strip_prefix(key)) for key in self.keys(prepared)), most
        )
        contents = records.get_each(self._reader, prepared.table, [row for _, row in found])
        return [
            IndexedPartition(name.decode(errors="surrogatepass"), *content)
            for (name, _), content in zip(found, contents, strict=True)
            if content is not None
        ]

    def get_each(self, table: str, values: Sequence[Sequence[str]]) -> list[IndexedPartition | None]:
        """Return the partitions with these values, None where there is none. Raises NotFound, BadPartitionValue."""
        known = self.table(table)
        contents = records.get_each(self._reader, known, [known.form.row(one) for one in values])
        return [
            None if content is None else IndexedPartition(known.form.name(one), *content)
            for one, content in zip(values, contents, strict=True)
        ]

    def explain(self, table: str, text: str, dialect: Dialect = HIVE_4) -> Explanation:
        """Plan and run a filter, and tell how it was answered; reads the table once for its size."""
        prepared = self.prepare(table, text, dialect)
        access, columns = prepared.access, prepared.table.form.columns
        before = self.counts["rows-scanned"]
        matched = self.count(prepared)
        scanned = self.counts["rows-scanned"] - before
        residual = "" if prepared.residual is None else describe_condition(prepared.residual, columns)
        size = self.count(self.prepare(table, "", dialect))
        ranges = tuple((start.hex(), "" if end is None else end.hex()) for start, end in access.ranges)
        estimate = round(size * estimate_selectivity(prepared.bound))
        return Explanation(
            table, describe_path(access, columns), ranges, residual, access.capped, estimate, scanned, matched
        )

    def check(self) -> None:
        """Assert that the store holds the same tables, that their rows and postings agree, and that there are no others."""
        stored = dict(records.read_tables(self._reader))
        assert sorted(stored) == self.tables(), (sorted(stored), self.tables())
        for name, table in stored.items():
            assert table.number == self._tables[name].number, name
            records.check(self._reader, table)
        records.check_numbers(self._reader, {table.number for table in stored.values()})

    def _planned(self, table: IndexedTable, text: str, dialect: Dialect) -> PreparedFilter:
        form = table.form
        tree = parse(text, dialect)
        bound = None if tree is None else bind(tree, form.columns, dialect, form.default_partition)
        return self.prepared(table, bound)

    def prepared(self, table: IndexedTable, bound: Condition | None) -> PreparedFilter:
        """Plan a bound filter (None: all partitions)."""
        plan, columns = plan_filter(bound), len(table.form.columns)
        access = choose_path(plan, columns)
        self.counts.update({"plans": 1, "ranges": len(access.ranges), "caps-hit": int(access.capped)})
        if access.exact or bound is None:
            return PreparedFilter(table, bound, access, None, None)
        residual = bound
        if access.left:
            residual = all_of(Leaf(at, box.limit(at) or ()) for box in plan.plans() for at in access.left)
        return PreparedFilter(table, bound, access, residual, compile_check(residual, columns))

    def table(self, name: str) -> IndexedTable:
        """Return how a table is stored; raise NotFound where it is not indexed."""
        table = self._tables.get(name)
        if table is None:
            raise NotFound("the table is not in the partition index", table=name)
        return table

    def _publish(self, touched: Mapping[str, IndexedTable | None]) -> None:
        merged: dict[str, IndexedTable | None] = {**self._tables, **touched}
        self._tables = {name: table for name, table in merged.items() if table is not None}


def first(items: Iterable[T], most: int) -> list[T]:
    """Return the ``most`` smallest items in order, all where that is negative."""
    if most == 0:
        return []
    return sorted(items) if most < 0 else nsmallest(most, items)


AT_ONCE: Final = 512
"""Keys that are asked for together."""


@runtime_checkable
class FilteringReader(RemoteReader, Protocol):
    """A store that can tell of some keys of rows by itself that they do not match."""

    def scan_matching(self, start: bytes, end: bytes | None, bound: Condition) -> Iterator[bytes]:
        """Yield the keys of rows with ``start <= key < end`` in order, perhaps without some that ``bound`` excludes."""


def with_rows(
    reader: RemoteReader, table: IndexedTable, postings: Iterable[bytes], counts: Counter[str]
) -> Iterator[bytes]:
    """Yield those postings whose rows are there, in order; count the others as ``postings-dropped``."""
    left = iter(postings)
    while some := list(islice(left, AT_ONCE)):
        behind = [table.rows + partition_key.strip_prefix(posting) for posting in some]
        there = reader.existing(behind)
        counts["postings-dropped"] += len(set(behind)) - len(there)
        yield from (posting for posting, row in zip(some, behind, strict=True) if row in there)
