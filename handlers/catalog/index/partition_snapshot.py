"""The partitions of a source at one moment, for readers: in the catalog's own process, or in its state file.

Every answer comes from one snapshot: partitions, the table's state and the position belong together. Reading
takes no lock that the catalog needs. ``PartitionFollower.snapshot`` opens a snapshot in the catalog's
process. ``IndexFile`` opens it in another process, which cannot read an index in HBase.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike

from handlers.catalog.following.table_state import TableState, parse_state
from handlers.catalog.following.table_states import STATES
from handlers.catalog.index.payload_reader import JoinedRows, PayloadReader
from handlers.catalog.index.table_records import TableRecord, read_record
from state.event_log.positions import POSITION_KEY, Position
from state.partitions.filters.dialect import HIVE_4, Dialect
from state.partitions.index.check_budget import AnswerBudget
from state.partitions.index.lookups import TableLookups
from state.partitions.index.partition_index import IndexSnapshot, PartitionIndex
from state.store import Reader
from state.store.memory import MemoryStore
from state.store.sqlite_reader import SqliteReader


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """The indexed state at one moment. Use it from one thread only, until the snapshot ends."""

    index: IndexSnapshot
    payloads: PayloadReader
    budget: AnswerBudget
    catalog: Reader | None
    """The catalog's store at the same moment; None if the index has its own store, read as it is."""

    def lookups(self, name: str, dialect: Dialect = HIVE_4) -> TableLookups:
        """Return the lookups in a table; they raise NotFound if the table is not indexed."""
        return TableLookups(self.index, name, dialect)

    def event_id(self) -> int | None:
        """Return the last event applied completely; None if only the catalog knows it, or has no position
        yet.
        """
        stored = None if self.catalog is None else self.catalog.get(POSITION_KEY)
        return None if stored is None else Position.from_bytes(stored).applied_event_id

    def table_state(self, name: str) -> TableState | None:
        """Return the state of a table; None for an unknown table,
        or if only the catalog knows it. Raises StateCorrupt.
        """
        stored = None if self.catalog is None else self.catalog.get(STATES + name.encode())
        return None if stored is None else parse_state(stored)

    def record(self, name: str) -> TableRecord | None:
        """Return the catalog's record of an indexed table; None for any other. Raises StateCorrupt."""
        return None if self.catalog is None else read_record(self.catalog, name)


class IndexFile:
    """Opens snapshots of a catalog's state file; thread-safe. Raises FilesUnavailable and StateCorrupt as
    ``SqliteReader`` does.
    """

    def __init__(self, path: str | PathLike[str], *, schema_version: int) -> None:
        self._file = SqliteReader(path, schema_version=schema_version)
        nothing = MemoryStore()
        self._index = PartitionIndex(nothing)  # has no tables; holds the plans that all snapshots share
        self._payloads = PayloadReader(nothing, rows=JoinedRows())

    @contextmanager
    def snapshot(self) -> Iterator[PartitionSnapshot]:
        """Open the current indexed state, for one answer; close it within seconds."""
        budget = AnswerBudget()
        with self._file.snapshot(budget.look) as reader:
            index = IndexSnapshot(self._index, reader, budget)
            yield PartitionSnapshot(index, self._payloads.at(reader), budget, reader)

    def position(self) -> int:
        """Return the last event applied completely; -1 before the catalog has a position."""
        with self._file.snapshot() as reader:
            stored = reader.get(POSITION_KEY)
        return -1 if stored is None else Position.from_bytes(stored).applied_event_id

    def close(self) -> None:
        """Close the connections to the file."""
        self._file.close()
