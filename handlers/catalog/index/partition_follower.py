"""The partition index as a follower of the catalog: names, values and whole partitions of the tables that the rules name.

Readers of other threads hold ``lock`` for an answer, the catalog's thread from before a transaction until its changes are shown,
so an answer is of one moment. ``index_change`` tells how changes are made.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from handlers.catalog.index.follower_change import PartitionFollowerChange
from handlers.catalog.index.payloads import Packer
from handlers.catalog.index.table_records import read_counts
from state.partitions.index.partition_index import PartitionIndex


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from handlers.catalog.following.table_info import TableInfo
    from handlers.structs.objects import Partition
    from state.partitions.index.partition_index import IndexedPartition
    from state.store import Reader, Store, Transaction


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """Which tables of one source are in the partition index: patterns for ``db.table`` with ``*``, ``?`` and ``[...]``.

    The representation of a value is stored (``rules_text``): renaming the class or a field makes every catalog survey its source
    again.
    """

    tables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keys_max: int = 64
    """Tables with more partition columns are left out: their keys have no room for the start of each field."""

    def accepts(self, table: TableInfo) -> bool:
        """Whether the table is indexed."""
        if not 0 < len(table.columns) <= self.keys_max:
            return False
        return _matches(table.name, self.tables) and not _matches(table.name, self.exclude)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class PartitionFollower:
    """Keeps ``index`` true."""

    def __init__(self, rules: PartitionRules, store: Store | None = None) -> None:
        """Index the tables of ``rules``; ``store`` is the index's own, None where it lives in the catalog's."""
        self.rules = rules
        self.index: PartitionIndex
        self._own = store
        self._packer: Packer
        self._lock = threading.RLock()
        self.indexed: Mapping[str, int] = {}
        """The tables that can be asked about, with their numbers of partitions; replaced whole, for any thread."""

    @property
    def rules_text(self) -> str:
        """The rules as text, with the kind of store."""
        return f"{self.rules!r} {type(self._own).__name__}"

    @property
    def loads_in_pieces(self) -> bool:
        """It does: whole partitions of large tables fit into no transaction."""
        return True

    def open(self, reader: Reader) -> None:
        """Read which tables there are."""
        with self._lock:
            if self._own is not None:
                with self._own.transaction():
                    pass  # what was cut off in a store that is far away takes effect with the next transaction: before we read
            self.index = PartitionIndex(self._own or reader)
            self._packer = Packer(self._own or reader)
            tables = set(self.index.tables())
            self.indexed = {
                name: count
                for name, count in read_counts(reader, self._own or reader).items()
                if name in tables
            }

    def accepts(self, table: TableInfo) -> bool:
        """Whether the rules say so."""
        return self.rules.accepts(table)

    def names_suffice(self, table: TableInfo) -> bool:  # noqa: ARG002 - the same for all tables
        """They do not: it answers with whole partitions."""
        return False

    def lock(self) -> AbstractContextManager[object]:
        """Hold what readers need for an answer."""
        return self._lock

    @contextmanager
    def open_change(self, txn: Transaction) -> Iterator[PartitionFollowerChange]:
        """Give a change; the index's own store commits at the end of the block, before the catalog's."""
        with nullcontext(txn) if self._own is None else self._own.transaction() as own:
            change = PartitionFollowerChange(txn, own, self.index.change(own), self.accepts, self._show)
            yield change
            change.flush()

    def whole(self, name: str, found: IndexedPartition) -> Partition:
        """Return what the metastore would send for a partition of the table ``name``; raise StateCorrupt."""
        db, _, table = name.partition(".")
        return self._packer.unpack(found.payload, db, table)

    def check(self) -> None:
        """Assert that the index is whole, and that every partition can be read."""
        self.index.check()
        assert self.indexed.keys() <= set(self.index.tables()), self.indexed
        for name in self.indexed:
            partitions = self.index.partitions(self.index.prepare(name, ""))
            assert len(partitions) == self.indexed[name], name
            for found in partitions:
                assert tuple(self.whole(name, found).values) == found.values, found

    def close(self) -> None:
        """Release the index's own store, if it has one."""
        if self._own is not None:
            self._own.close()

    def _show(self, changed: Mapping[str, int | None]) -> None:
        merged: dict[str, int | None] = {**self.indexed, **changed}
        self.indexed = {name: count for name, count in merged.items() if count is not None}
