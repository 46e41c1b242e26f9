"""The write ids of one source table, kept up to date from events alone.

The source draws write ids of a table one after another, so the high-water mark, who has which id open, and what was aborted
say everything. Ids that are neither open nor aborted are committed, or hold no files (replaced by a reallocation).
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Final

from state.transactions.write_ids import ValidWriteIds


ABORTED_MAX: Final = 10_000
"""Aborted ids remembered per table; beyond, the lowest are forgotten.

Forgetting one is harmless: it then reads as committed and holds no files on the target, which is what Hive's own cleaner
makes of a replayed abort within seconds.
"""


@dataclass(slots=True)
class TableWriteIds:
    """``open`` maps a write id to its source transaction; ``aborted`` ascends."""

    high_water_mark: int = 0
    open: dict[int, int] = field(default_factory=dict)
    aborted: list[int] = field(default_factory=list)

    def abort(self, write_id: int) -> int | None:
        """Turn an open id into an aborted one; return the id that is forgotten for it, if any."""
        del self.open[write_id]
        insort(self.aborted, write_id)
        return self.aborted.pop(0) if len(self.aborted) > ABORTED_MAX else None

    def valid(self, table: str) -> ValidWriteIds:
        """Return the list that the source's readers get at this point of the log."""
        return ValidWriteIds(table, self.high_water_mark, tuple(sorted(self.open)), tuple(self.aborted))

    def check(self) -> None:
        """Assert: no id above the mark, none twice, no more aborted ones than are remembered."""
        assert self.high_water_mark >= 0, self
        assert self.aborted == sorted(set(self.aborted)), self
        assert len(self.aborted) <= ABORTED_MAX, len(self.aborted)
        assert self.open.keys().isdisjoint(self.aborted), self
        assert all(1 <= write_id <= self.high_water_mark for write_id in (*self.open, *self.aborted)), self
