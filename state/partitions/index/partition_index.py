"""Answers partition filters from the store, for many tables;
events about tables and partitions keep it up to date.

The caller that applies events opens a change with ``change(txn)``, inside the store transaction that also
writes the position, and calls ``publish()`` on it after the commit. That transaction has rows and postings:
no reader finds a posting without its row.

A cache keeps the plans of filters (clients repeat them). ``key_scan`` reads the matching keys. Answers are in
the order of partition names, as the metastore's, and ``limit`` cuts them in that order.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import chain, islice
from typing import Final, TypeVar

from state.errors import NotFound
from state.partitions.filters.binder import bind
from state.partitions.filters.conditions import Condition, Leaf, all_of, compile_check
from state.partitions.filters.dialect import HIVE_4, Dialect
from state.partitions.filters.parser import parse_filter
from state.partitions.filters.syntax_tree import Node
from state.partitions.index import records
from state.partitions.index.access_paths import PathChoice, choose_path
from state.partitions.index.check_budget import AnswerBudget, Clock
from state.partitions.index.index_change import IndexChange
from state.partitions.index.key_scan import KEYS_BATCH, KeyScan, key_ranges_of
from state.partitions.index.prepared_filters import REPLANNED_ABOVE, PlanCache, PreparedFilter
from state.partitions.index.records import IndexedTable
from state.partitions.index.scan_plans import plan_filter
from state.partitions.keys import partition_key
from state.partitions.keys.column_types import PartitionColumn
from state.shared_tables import SharedTables
from state.store import Reader, Transaction, as_remote, prefix_end


T = TypeVar("T", str, bytes, tuple[bytes, bytes])
NO_LIMIT: Final = -1
"""As a ``limit``: all partitions."""


@dataclass(frozen=True, slots=True)
class IndexedPartition:
    """A partition: its name, its values as text, and its payload (as the metastore would send it, encoded by
    the caller).
    """

    name: str
    values: tuple[str, ...]
    payload: bytes


class PartitionIndex:
    """The partition index of one projection over its store."""

    def __init__(self, reader: Reader, *, clock: Clock = time.thread_time) -> None:
        """Read the indexed tables from the store; raise StateCorrupt. ``clock`` measures the time of
        answers.
        """
        self._attach(reader, SharedTables(dict(records.read_tables(reader))), PlanCache())
        self._clock = clock

    def _attach(
        self,
        reader: Reader,
        tables: SharedTables[IndexedTable],
        plans: PlanCache,
    ) -> None:
        self._reader = reader
        self._remote = as_remote(reader)
        self._tables = tables
        self.plans = plans
        self.counts: Counter[str] = Counter()
        """Since start: ``plans``, ``ranges`` planned, ``caps-hit``, ``rows-scanned``, ``postings-dropped``,
        ``answers-unknown``."""
        self._scan = KeyScan(reader, plans, self.counts)

    def known_tables(self) -> SharedTables[IndexedTable]:
        """Return all indexed tables; thread-safe."""
        return self._tables

    def budget(self) -> AnswerBudget:
        """Return the limits of the next answer."""
        return AnswerBudget(clock=self._clock)

    def change(self, txn: Transaction) -> IndexChange:
        """Open a change within a store transaction; only one may be open at a time."""
        return IndexChange(txn, self._tables, self._publish, gives_versions=self._remote is None)

    def tables(self) -> list[str]:
        """Return the names of all indexed tables, sorted."""
        return self._tables.names()

    def columns(self, table: str) -> tuple[PartitionColumn, ...]:
        """Return a table's partition columns; raise NotFound for an unknown table."""
        return self.table(table).key_schema.columns

    def prepare(self, table: str, text: str, dialect: Dialect = HIVE_4) -> PreparedFilter:
        """Plan a filter; raise NotFound, BadFilter or LimitExceeded."""
        indexed = self.table(table)
        key = (indexed.number, text, dialect)
        plan = self.plans.get(key)
        return self.plans.keep(key, self._plan_text(indexed, text, dialect)) if plan is None else plan

    def prepare_node(self, table: IndexedTable, node: Node) -> PreparedFilter:
        """Plan a syntax tree in Hive 4's dialect; raise BadFilter or LimitExceeded."""
        schema = table.key_schema
        return self.prepare_condition(
            table, repr(node), lambda: bind(node, schema.columns, HIVE_4, schema.default_partition), node
        )

    def prepare_condition(
        self,
        table: IndexedTable,
        text: str,
        make: Callable[[], Condition | None],
        tree: Node | None = None,
    ) -> PreparedFilter:
        """Plan the condition that ``make`` returns, from a syntax tree if any;
        ``text`` identifies it in the cache.
        """
        key = (table.number, f"\0{text}", HIVE_4)  # no text of a filter begins like this
        plan = self.plans.get(key)
        return self.plans.keep(key, replace(self.plan(table, make()), tree=tree)) if plan is None else plan

    def keys(self, prepared: PreparedFilter) -> Iterator[bytes]:
        """Yield the key of every partition that matches,
        in the order of the access path; raise FilterTooExpensive.
        """
        return self._scan.keys(prepared, self.budget())

    def count(self, prepared: PreparedFilter) -> int:
        """Return the number of partitions that match."""
        return sum(1 for _ in self.keys(prepared))

    def names(self, prepared: PreparedFilter, limit: int = NO_LIMIT) -> list[str]:
        """Return the names of the first ``limit`` partitions that match, in the order of names."""
        return [name.decode(errors="surrogatepass") for name in self.find_names(prepared, limit)]

    def partitions(self, prepared: PreparedFilter, limit: int = NO_LIMIT) -> list[IndexedPartition]:
        """Return the first ``limit`` partitions that match, in the order of names."""
        rows = self.find_rows(prepared, limit)
        contents = records.get_each(self._reader, prepared.table, [row for _, row in rows])
        return [
            IndexedPartition(name.decode(errors="surrogatepass"), *content)
            for (name, _), content in zip(rows, contents, strict=True)
            if content is not None
        ]

    def find_rows(self, prepared: PreparedFilter, limit: int = NO_LIMIT) -> list[tuple[bytes, bytes]]:
        """Return (name, row) of the first ``limit`` partitions that match, in the order of names."""
        name_of = partition_key.name_reader(len(prepared.table.key_schema.columns))
        if prepared.access.column is None and not prepared.further:
            start = len(prepared.table.rows)
            return take_first(((name_of(key), key[start:]) for key in self.keys(prepared)), limit)
        strip = partition_key.strip_prefix
        return take_first(((name_of(key), strip(key)) for key in self.keys(prepared)), limit)

    def find_names(self, prepared: PreparedFilter, limit: int = NO_LIMIT) -> list[bytes]:
        """Return the names of the first ``limit`` partitions that match, in order and in UTF-8."""
        columns, keys = len(prepared.table.key_schema.columns), self.keys(prepared)
        batches = iter(lambda: list(islice(keys, KEYS_BATCH)), [])
        return take_first(
            chain.from_iterable(partition_key.read_names(batch, columns) for batch in batches), limit
        )

    def find_payloads(self, prepared: PreparedFilter, limit: int = NO_LIMIT) -> list[tuple[bytes, bytes]]:
        """Return (name, payload) of the first ``limit`` partitions that match, in the order of names.

        If all partitions are requested, and the ranges of a local store contain nothing else, one scan reads
        keys and values together, in an eighth of the time. Raises LimitExceeded if they are too many for one
        answer.
        """
        reads_together = limit < 0 and prepared.check is None and prepared.access.column is None
        if reads_together and self._remote is None:
            columns = len(prepared.table.key_schema.columns)
            pairs: list[tuple[bytes, bytes]] = []
            budget = self.budget()
            for start, end in key_ranges_of(prepared):
                scanned = self._reader.scan(start, end)
                while batch := list(islice(scanned, KEYS_BATCH)):
                    keys, values = zip(*batch, strict=True)
                    budget.count_bytes(sum(map(len, values)))
                    pairs += zip(
                        partition_key.read_names(keys, columns), records.payloads_of(values), strict=True
                    )
            self.counts["rows-scanned"] += len(pairs)
            return sorted(pairs)
        rows = self.find_rows(prepared, limit)
        payloads = self.payloads(prepared.table, [row for _, row in rows])
        found = zip(rows, payloads, strict=True)
        return [(name, payload) for (name, _), payload in found if payload is not None]

    def payloads(self, table: IndexedTable, rows: Sequence[bytes]) -> list[bytes | None]:
        """Return the payload of each row, None if it does not exist."""
        return records.get_payloads(self._reader, table, rows)

    def has_field(self, table: IndexedTable, column: int, field: bytes) -> bool:
        """Whether a partition has a field that begins with ``field`` in a column."""
        start = table.prefix(column or None) + field
        return next(self._reader.scan_keys(start, prefix_end(start)), None) is not None

    def get_each(self, table: str, values: Sequence[Sequence[str]]) -> list[IndexedPartition | None]:
        """Return the partitions with these values, None if one does not exist.
        Raises NotFound, BadPartitionValue.
        """
        indexed = self.table(table)
        contents = records.get_each(self._reader, indexed, [indexed.key_schema.row(one) for one in values])
        return [
            None if content is None else IndexedPartition(indexed.key_schema.name(one), *content)
            for one, content in zip(values, contents, strict=True)
        ]

    def check(self) -> None:
        """Assert that the store holds exactly the known tables, with rows and postings that agree."""
        stored = dict(records.read_tables(self._reader))
        assert sorted(stored) == self.tables(), (sorted(stored), self.tables())
        for name, table in stored.items():
            assert table.number == self._tables[name].number, name
            records.check(self._reader, table)
        records.check_numbers(self._reader, {table.number for table in stored.values()})

    def _plan_text(self, table: IndexedTable, text: str, dialect: Dialect) -> PreparedFilter:
        schema = table.key_schema
        tree = parse_filter(text, dialect)
        condition = None if tree is None else bind(tree, schema.columns, dialect, schema.default_partition)
        return replace(self.plan(table, condition), tree=tree)

    def plan(self, table: IndexedTable, condition: Condition | None) -> PreparedFilter:
        """Plan a condition (None: all partitions)."""
        plan, columns = plan_filter(condition), len(table.key_schema.columns)
        if self._remote is None:
            (access, *further), size = PathChoice(self._reader, table).choose(plan)
        else:  # counting keys is expensive
            (access, *further), size = [choose_path(plan, columns)], None
        ranges = len(access.ranges) + sum(len(path.ranges) for path in further)
        self.counts.update({"plans": 1, "ranges": ranges, "caps-hit": int(access.capped)})
        if (access.exact and all(path.exact for path in further)) or condition is None:
            return PreparedFilter(table, condition, access, None, None, tuple(further))
        residual = condition
        if access.unread and not further:
            residual = all_of(Leaf(at, box.limit(at) or ()) for box in plan.plans() for at in access.unread)
        check = compile_check(residual, columns)
        factor, more = REPLANNED_ABOVE
        limit = None if size is None else factor * size + more
        return PreparedFilter(table, condition, access, residual, check, tuple(further), limit)

    def table(self, name: str) -> IndexedTable:
        """Return the stored form of a table; raise NotFound without such a table."""
        table = self._tables.get(name)
        if table is None:
            raise NotFound("the table is not in the partition index", table=name)
        return table

    def version(self, name: str) -> bytes | None:
        """Return the version of a table's rows, None if unknown; raise NotFound for an unknown table.

        Two readers with the same number and version of a table contain the same rows.
        """
        return self._reader.get(records.version_key(self.table(name).number))

    def _publish(self, touched: Mapping[str, IndexedTable | None]) -> None:
        self._tables.change(touched)


class IndexSnapshot(PartitionIndex):
    """The index as of one snapshot of its store, for one answer, which any thread may make; ``counts`` are
    those of this answer alone.

    A table's record comes from the snapshot, not from memory: a reload gives the table another number, and
    both must belong to the same moment. It shares plans with the index, because the columns of a number never
    change.
    """

    def __init__(self, index: PartitionIndex, reader: Reader, budget: AnswerBudget) -> None:
        """Answer from ``reader``, a snapshot of the store of ``index``."""
        self._attach(reader, index.known_tables(), index.plans)
        self._budget = budget
        self._tables_read: dict[str, IndexedTable] = {}

    def table(self, name: str) -> IndexedTable:
        """Return the stored form of a table; raise NotFound without such a table."""
        if self._remote is not None:
            return super().table(name)
        if name not in self._tables_read:
            table = records.read_table(self._reader, name)
            if table is None:
                raise NotFound("the table is not in the partition index", table=name)
            self._tables_read[name] = table
        return self._tables_read[name]

    def budget(self) -> AnswerBudget:
        """Return the budget of this answer."""
        return self._budget


def take_first(items: Iterable[T], limit: int) -> list[T]:
    """Return the ``limit`` smallest items in order, all of them for a negative limit."""
    if limit == 0:
        return []
    return sorted(items) if limit < 0 else nsmallest(limit, items)
