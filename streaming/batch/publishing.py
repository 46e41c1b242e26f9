"""Publishing: the files of a staged batch are moved to their hours, and its counts are added to the hours' parameters.

Every step can be repeated, and is repeated after a crash:

1. move each file to its final location; a move that was done before is recognized;
2. add the batch's counts to each hour, unless the hour's mark names this batch already;
3. remove the staging directory.

Partitions exist before files are moved, so no file is moved to a directory that readers do not see. The table already has the file's
columns, because they were added when the batch was planned. So no reader sees a file that is newer than the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.failpoints import failpoint
from streaming.table.hours import parse_version
from streaming.table.parameters import BATCHES, RAW_BYTES, ROWS, SEALED, TOUCHED, VALUES
from streaming.table.value_counts import add_counts, format_counts, parse_counts


if TYPE_CHECKING:
    from streaming.batch.records import HourDelta, StagedBatch
    from streaming.storage.port import Storage
    from streaming.table.flat_table import FlatTable, HourPartition


class Publisher:
    """Publishes the batches of one stream; ``query`` is the id of its checkpoint."""

    def __init__(self, table: FlatTable, storage: Storage, query: str) -> None:
        self._table = table
        self._storage = storage
        self._query = query

    def publish(self, staged: StagedBatch) -> StagedBatch:
        """Publish a staged batch, or complete what an interrupted attempt began."""
        # 1. Files: a completed move is not repeated.
        for move in staged.moves:
            self._storage.move(move.source, move.target)
            failpoint("flat.moved")
        # 2. Counts: the mark in the hour's parameters shows whether this batch is included.
        for hour, counts in sorted(staged.hours.items()):
            self._add_counts(hour, counts, staged)
            failpoint("flat.counted")
        # 3. All files are moved; only empty directories are left.
        self._storage.remove(staged.directory)
        failpoint("flat.published")
        return staged

    def hour(self, hour: int) -> HourPartition:
        """Return the partition of ``hour``; if it is missing, add it with a directory that no earlier partition used."""
        if found := self._table.partitions([hour]):
            return found[0]
        state = self._table.read()
        entries = self._storage.list(str(state.columns.directory(state.location, hour)))
        used = [
            int(entry.name[1:]) for entry in entries if entry.name[:1] == "v" and entry.name[1:].isdecimal()
        ]
        return self._table.add_hour(hour, version=max(used, default=0) + 1)

    def _add_counts(self, hour: int, counts: HourDelta, staged: StagedBatch) -> None:
        partition = self.hour(hour)
        assert parse_version(partition.location) is not None, partition
        parameters = partition.parameters
        mark = f"{self._query}:{staged.batch}"
        if parameters.get(BATCHES) == mark:
            return
        self._table.set_hour_parameters(
            hour,
            {
                BATCHES: mark,
                ROWS: str(int(parameters.get(ROWS, 0)) + counts.rows),
                RAW_BYTES: str(int(parameters.get(RAW_BYTES, 0)) + counts.bytes),
                VALUES: format_counts(add_counts(parse_counts(parameters.get(VALUES, "")), counts.nonnull)),
                SEALED: None,
                TOUCHED: str(staged.watermark.reached_s or 0),
            },
        )
