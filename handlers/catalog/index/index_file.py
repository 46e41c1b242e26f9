"""The partition index in the state file of a catalog that another process keeps, for readers.

Every answer comes from one snapshot of the file: partitions, the table's state and the position belong together. Reading takes no lock
that the catalog's process waits for. An index in HBase is not in this file and cannot be read here.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.catalog.following.states.table_state import TableState, parse_state
from handlers.catalog.following.states.table_states import STATES
from handlers.catalog.index.joined_rows import JoinedRows
from handlers.catalog.index.payload_bytes import PayloadBytes
from handlers.catalog.index.table_records import has_record, read_record
from state.errors import NotFound
from state.partitions.index.check_budget import AnswerBudget
from state.partitions.index.index_snapshot import IndexSnapshot
from state.partitions.index.partition_index import PartitionIndex
from state.positions import POSITION_KEY, Position
from state.store.memory import MemoryStore
from state.store.sqlite_reader import SqliteReader


if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from handlers.catalog.index.table_records import TableRecord
    from state.store import Reader


@dataclass(frozen=True, slots=True)
class IndexMoment:
    """The index at one moment, for one thread, until its snapshot ends."""

    reader: Reader
    index: IndexSnapshot
    payloads: PayloadBytes
    budget: AnswerBudget

    @property
    def event_id(self) -> int:
        """The last event that was applied completely; -1 before the catalog has a position."""
        stored = self.reader.get(POSITION_KEY)
        return -1 if stored is None else Position.from_bytes(stored).applied_event_id

    def table_state(self, name: str) -> TableState | None:
        """Return the state of an indexed table; None for any other. Raises StateCorrupt."""
        stored = self.reader.get(STATES + name.encode())
        return None if stored is None or not has_record(self.reader, name) else parse_state(stored)

    def record(self, name: str) -> TableRecord:
        """Return what the catalog knows of an indexed table; raise NotFound, StateCorrupt."""
        found = read_record(self.reader, name)
        if found is None:
            raise NotFound("the table is not in the partition index", table=name)
        return found


class IndexFile:
    """Opens snapshots of the index; for any thread. Raises FilesUnavailable and StateCorrupt as ``SqliteReader`` does."""

    def __init__(self, path: str | PathLike[str], *, schema_version: int) -> None:
        self._file = SqliteReader(path, schema_version=schema_version)
        nothing = MemoryStore()
        self._index = PartitionIndex(nothing)  # has no tables; holds the plans that all snapshots share
        self._payloads = PayloadBytes(nothing, rows=JoinedRows())

    @contextmanager
    def moment(self) -> Iterator[IndexMoment]:
        """Open what is indexed now, for one answer; it must end within seconds."""
        budget = AnswerBudget()
        with self._file.snapshot(budget.look) as reader:
            index = IndexSnapshot(self._index, reader, budget)
            yield IndexMoment(reader, index, self._payloads.at(reader), budget)

    def position(self) -> int:
        """Return the last event that was applied completely; -1 before the catalog has a position."""
        with self._file.snapshot() as reader:
            stored = reader.get(POSITION_KEY)
        return -1 if stored is None else Position.from_bytes(stored).applied_event_id

    def close(self) -> None:
        """Close the connections to the file."""
        self._file.close()
