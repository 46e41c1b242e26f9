"""The partition index as a follower of the catalog:
names, values and whole partitions of the tables that the rules select.

Readers in other threads answer from a snapshot of the store, which is one moment between two transactions of
the catalog: partitions, the table's state and the event id belong together. They hold no lock that the
catalog's thread needs. A store without snapshots (HBase) shows its state at the time of each read.
``follower_change`` applies the changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from handlers.catalog.following.ports import SampledPartition
from handlers.catalog.following.table_info import Listing, TableInfo, TableLoad
from handlers.catalog.index.follower_change import PartitionFollowerChange
from handlers.catalog.index.partition_snapshot import PartitionSnapshot
from handlers.catalog.index.payload_reader import PayloadReader
from handlers.catalog.index.table_records import read_counts
from handlers.catalog.turns import Turns
from handlers.structs.objects import Partition
from state.partitions.index.check_budget import AnswerBudget
from state.partitions.index.partition_index import IndexedPartition, IndexSnapshot, PartitionIndex
from state.partitions.index.records import NUMBERS
from state.shared_tables import SharedTables
from state.store import Store, Transaction


SAMPLED: Final = 8
"""Number of partitions read to determine whether a change of columns reached them."""
SWEPT: Final = 2_500
"""Keys of forgotten tables removed at once: a few hundredths of a second."""


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """Which tables of one source are in the partition index:
    patterns for ``db.table`` with ``*``, ``?`` and ``[...]``.

    The store has the representation of a value (``rules_text``): renaming the class or a field makes every
    catalog survey its source again.
    """

    tables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keys_max: int = 64
    """The index leaves out tables with more partition columns: their keys have no space for the start of each
    field.
    """

    def accepts(self, table: TableInfo) -> bool:
        """Whether the index has the table."""
        if not 0 < len(table.columns) <= self.keys_max:
            return False
        return _matches(table.name, self.tables) and not _matches(table.name, self.exclude)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class PartitionFollower:
    """Keeps ``index`` up to date."""

    def __init__(self, rules: PartitionRules, store: Store | None = None) -> None:
        """Index the tables of ``rules``;
        ``store`` is the index's own store, None if it is in the catalog's.
        """
        self.rules = rules
        self.index: PartitionIndex
        self._own = store
        self._payloads: PayloadReader
        self._store: Store
        self.turns = Turns()
        """Shares the processor between readers and the catalog that applies events; set by the owner of
        both."""
        self._has_discarded = True
        self.indexed = SharedTables[int]()
        """The tables for queries, with their numbers of partitions; thread-safe."""

    @property
    def rules_text(self) -> str:
        """The rules and the kind of store as text, which is stored."""
        return f"{self.rules!r} {type(self._own).__name__}"

    @property
    def loads_in_pieces(self) -> bool:
        """True: the whole partitions of a large table do not fit into one transaction."""
        return True

    def open(self, store: Store) -> None:
        """Read the indexed tables from the store."""
        if self._own is not None:
            with self._own.transaction():
                pass  # finishes an interrupted transaction of a remote store before reading it
        self._store = self._own or store
        self.index = PartitionIndex(self._store)
        self._payloads = PayloadReader(self._store)
        self._has_discarded = True
        tables = set(self.index.tables())
        counts = read_counts(store, self._store)
        self.indexed = SharedTables({name: count for name, count in counts.items() if name in tables})

    @contextmanager
    def snapshot(self) -> Iterator[PartitionSnapshot]:
        """Open the current indexed state for one answer, which any thread may make; close it within
        seconds.
        """
        budget = AnswerBudget(self.turns.give_way)
        with self.turns.reading(), self._store.snapshot(budget.look) as reader:
            index = IndexSnapshot(self.index, reader, budget)
            catalog = reader if self._own is None else None
            yield PartitionSnapshot(index, self._payloads.at(reader), budget, catalog)

    def accepts(self, table: TableInfo) -> bool:
        """Whether the rules select the table."""
        return self.rules.accepts(table)

    def names_suffice(self, table: TableInfo) -> bool:  # noqa: ARG002 - the same for all tables
        """False: answers contain whole partitions."""
        return False

    def properties_suffice(self, table: TableInfo) -> bool:  # noqa: ARG002 - the same for all tables
        """False: properties do not contain partitions."""
        return False

    @property
    def partition_parameters(self) -> frozenset[str]:
        """None: it loads in pieces."""
        return frozenset()

    def begin_load(self, listing: Listing) -> TableLoad:  # noqa: PLR6301 - the same for all tables
        """Begin to stage a piece as it is."""
        return TableLoad(listing)

    def sample(self, name: str) -> Sequence[SampledPartition]:
        """Return the first partitions of a table by name:
        they are usually the oldest, which are rarely changed.
        """
        if name not in self.indexed:
            return ()
        partitions = self.index.partitions(self.index.prepare(name, ""), SAMPLED)
        return [SampledPartition(one.name, one.values, self.whole(name, one)) for one in partitions]

    @contextmanager
    def open_change(self, txn: Transaction) -> Iterator[PartitionFollowerChange]:
        """Open a change; the index's own store commits at the end of the block, before the catalog's."""
        with nullcontext(txn) if self._own is None else self._own.transaction() as own:
            change = PartitionFollowerChange(
                txn, own, self.index.change(own), self.accepts, self._publish_counts
            )
            yield change
            change.flush()
        self._has_discarded |= change.has_discarded

    def tidy(self, store: Store) -> bool:
        """Remove some partitions of forgotten or replaced tables; return whether there may be more."""
        if self._has_discarded:
            with (self._own or store).transaction() as txn:
                self._has_discarded = NUMBERS.sweep(txn, SWEPT)
        return self._has_discarded

    def whole(self, name: str, partition: IndexedPartition) -> Partition:
        """Return a partition of the table ``name`` as the metastore would send it; raise StateCorrupt."""
        db, _, table = name.partition(".")
        return self._payloads.unpack(partition.payload, db, table)

    def check(self) -> None:
        """Assert that the index is consistent and every partition readable."""
        self.index.check()
        assert set(self.indexed) <= set(self.index.tables()), self.indexed.names()
        for name in self.indexed:
            partitions = self.index.partitions(self.index.prepare(name, ""))
            assert len(partitions) == self.indexed[name], name
            for partition in partitions:
                assert tuple(self.whole(name, partition).values) == partition.values, partition

    def close(self) -> None:
        """Close the index's own store, if it has one."""
        if self._own is not None:
            self._own.close()

    def _publish_counts(self, changed: Mapping[str, int | None]) -> None:
        self.indexed.change(changed)
