"""The partition index as of one snapshot of its store, for one answer in any thread.

The table's record is read from the snapshot, not from memory: a reload gives a table another number, and both must belong to the
same moment. Plans are shared with the index, because the columns of a number never change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.errors import NotFound
from state.partitions.index import records
from state.partitions.index.partition_index import PartitionIndex


if TYPE_CHECKING:
    from state.partitions.index.check_budget import AnswerBudget
    from state.partitions.index.records import IndexedTable
    from state.store import Reader


class IndexSnapshot(PartitionIndex):
    """Answers from one snapshot; ``counts`` are those of this answer alone."""

    def __init__(self, index: PartitionIndex, reader: Reader, budget: AnswerBudget) -> None:
        """Answer from ``reader``, a snapshot of the store of ``index``."""
        self._attach(reader, index.known_tables(), index.plans)
        self._budget = budget
        self._found: dict[str, IndexedTable] = {}

    def table(self, name: str) -> IndexedTable:
        """Return the stored form of a table; raise NotFound where it is not indexed."""
        if self._remote is not None:
            return super().table(name)
        if name not in self._found:
            table = records.read_table(self._reader, name)
            if table is None:
                raise NotFound("the table is not in the partition index", table=name)
            self._found[name] = table
        return self._found[name]

    def budget(self) -> AnswerBudget:
        """Return the budget of this answer."""
        return self._budget
