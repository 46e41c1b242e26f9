"""Rewrites an hour, for compaction, promotion and backfill, which differ only in the rows.

1. Count the old files.
2. Write the new files to the next version of the hour's directory, which no reader sees.
3. Compare the new files with the old ones: as many rows, and at least as many values in every column.
4. Switch the partition in one metastore call, which also records the replaced directory. A query sees either
   all old or all new files. Then write the record for readers without a metastore
   (``streaming.table.current_files``).
5. Note the replaced directory for deletion at a time when no query still reads it.

A crash before step 4 leaves only a directory that the next attempt overwrites. After a crash between 4 and 5,
``note_replaced`` writes the note, because the partition's parameter still names the replaced directory.

Rewriting an hour splits its rows with ``_rescued`` again, because values may fit columns that have become
wider. A value in a numeric column stays there even if it does not fit when split again, because a narrowed
column holds numbers that had arrived as text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from handlers.failpoints import failpoint
from state.columns.slots import RESCUED, SlotState
from state.errors import Inconsistent
from streaming.batch.observations import merge_counts
from streaming.split.file_columns import slot_columns, textual_slots, write_columns
from streaming.split.parse_schema import quote
from streaming.split.splitter import split
from streaming.table.hours import parse_version, version_directory
from streaming.table.parameters import FLAT_BYTES, LAYOUT_VERSION, REPLACED, ROWS, SEALED, VALUES
from streaming.table.value_counts import format_counts, format_nonnull, list_data_files


if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from handlers.files.paths import Location
    from state.columns.paths import KeyPath
    from state.columns.slots import Layout, Slot
    from streaming.batch.observations import FileCounts
    from streaming.batch.sampling import Sampler
    from streaming.settings import FlatSettings
    from streaming.split.pushdown_guard import PushdownGuard
    from streaming.storage.port import Storage
    from streaming.table.current_files import CurrentTableFile
    from streaming.table.flat_table import FlatTable, HourPartition, TableState
    from streaming.table.lease import WriterLease
    from streaming.table.retention import Deletions


_OLD: Final = "_tideline_old_{}"
RewriteListener = Callable[[str, int, int, int], None]
"""Receives the reason of a rewrite, the hour, and the progress of this pass in hours."""


def ignore_rewrites(activity: str, hour: int, done: int, total: int) -> None:
    """Ignore a rewritten hour."""


def split_rescued_again(
    rows: DataFrame, layout: Layout, numeric_strings: Collection[KeyPath] = ()
) -> DataFrame:
    """Return ``rows`` (all slots by name), with those that have ``_rescued`` split again.

    Slots without a key keep their values, and numeric slots keep values that do not fit now.
    """
    from pyspark.sql import functions

    rescued = functions.col(RESCUED).isNotNull()
    old = [slot for slot in layout.slots if slot.state is SlotState.EMPTY or slot.type.is_numeric]
    old_columns = [f"{quote(slot.name)} AS {_OLD.format(slot.index)}" for slot in old]
    texts = rows.filter(rescued).selectExpr(f"{RESCUED} AS value", *old_columns)
    fresh = split(
        texts, layout, keep=[_OLD.format(slot.index) for slot in old], numeric_strings=numeric_strings
    )
    return rows.filter(~rescued).unionByName(fresh.selectExpr(*map(_choose_value, layout.slots)))


def _choose_value(slot: Slot) -> str:
    """Return the SQL that chooses a slot's value in a row that was split again, from the old and the new
    value.
    """
    old, name = _OLD.format(slot.index), quote(slot.name)
    if slot.state is SlotState.EMPTY:
        return f"{old} AS {name}"
    return f"COALESCE({name}, {old}) AS {name}" if slot.type.is_numeric else name


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Rewrites hours of one table. The caller holds the lease, and no batch is partly published."""

    spark: SparkSession
    settings: FlatSettings
    table: FlatTable
    lease: WriterLease
    storage: Storage
    deletions: Deletions
    sampler: Sampler
    guard: PushdownGuard
    current: CurrentTableFile
    clock: Callable[[], float]
    report: RewriteListener = ignore_rewrites

    def rewrite(
        self,
        partition: HourPartition,
        state: TableState,
        *,
        sealed: bool,
        replaced_by: DataFrame | None = None,
        more_rows: bool = False,
    ) -> HourPartition:
        """Rewrite the hour and return the switched partition.

        ``replaced_by`` are the new rows if they do not come from the old files (a backfill). ``more_rows``
        permits more rows than before. Raises Inconsistent if the new files lack rows or values of the old
        ones; the hour is unchanged then.
        """
        files = self.sampler.list_files(str(partition.location))
        if not files:
            written = {LAYOUT_VERSION: str(state.version), SEALED: "true" if sealed else None}
            return self.table.set_hour_parameters(partition.hour, written)
        location = self._prepare_next_version(partition)
        # 1. Count the old files.
        old = merge_counts(self.sampler.read_counts(files))
        # 2. Write the next version.
        rows = (
            self._resplit(self.read(files, state.layout), old, state) if replaced_by is None else replaced_by
        )
        self._write(rows, state, location, files)
        failpoint("flat.rewritten")
        # 3. Compare.
        new_files = self.sampler.list_files(str(location))
        new = merge_counts(self.sampler.read_counts(new_files))
        fills = replaced_by is not None  # new values may not fit their columns
        _check_complete(partition, old, new, state.layout, more_rows=more_rows, more_rescued=fills)
        return self._switch(partition, self.lease.hold(), location, new, sealed=sealed)

    def read(self, files: Sequence[str], layout: Layout) -> DataFrame:
        """Return the rows of these files with all slots by name."""
        schema = ", ".join(f"{quote(slot.name)} {slot.type.hive}" for slot in layout.slots)
        return self.spark.read.schema(schema).orc(list(files))

    def note_replaced(self, partitions: Sequence[HourPartition]) -> None:
        """Note replaced directories for deletion, including those for which a crash prevented the note."""
        for partition in partitions:
            old = partition.parameters.get(REPLACED)
            if old is None:
                continue
            due_s = self.clock() + self.settings.sealing.old_files_s
            self.deletions.note(partition.location.parent.child(old), due_s, "replaced")
            self.table.set_hour_parameters(partition.hour, {REPLACED: None})

    def _resplit(self, rows: DataFrame, old: FileCounts, state: TableState) -> DataFrame:
        if not (old.nonnull and old.nonnull[0]):
            return rows
        return split_rescued_again(rows, state.layout, self.settings.rules.numeric_strings)

    def _prepare_next_version(self, partition: HourPartition) -> Location:
        version = parse_version(partition.location)
        if version is None:
            raise Inconsistent(
                "a partition's directory is not a version directory of Tideline",
                location=str(partition.location),
            )
        location = version_directory(partition.location.parent, version + 1)
        self.storage.remove(str(location))
        return location

    def _write(self, rows: DataFrame, state: TableState, location: Location, files: Sequence[str]) -> None:
        size = self._sum_sizes(files[0].rpartition("/")[0])
        count = max(1, -(-size // self.settings.sealing.file_bytes))
        textual = textual_slots(state)
        columns = rows.selectExpr(*slot_columns(state.layout, textual)).coalesce(count)
        options = {"compression": self.settings.compression}
        write_columns(columns, state.layout, str(location), options=options)
        self.guard.mark_directory(str(location), textual)

    def _switch(
        self,
        partition: HourPartition,
        state: TableState,
        location: Location,
        counts: FileCounts,
        *,
        sealed: bool,
    ) -> HourPartition:
        # 4. Switch.
        failpoint("flat.switch")
        switched = self.table.switch_hour(
            partition.hour,
            location,
            {
                ROWS: str(counts.rows),
                VALUES: format_counts(counts.nonnull),
                **format_nonnull(state.version, counts.nonnull, list_data_files(self.storage, str(location))),
                FLAT_BYTES: str(self._sum_sizes(str(location))),
                SEALED: "true" if sealed else None,
                REPLACED: partition.location.name,
            },
        )
        failpoint("flat.switched")
        self.current.write(state)
        # 5. Note the replaced directory.
        self.note_replaced([switched])
        failpoint("flat.replaced")
        return switched

    def _sum_sizes(self, directory: str) -> int:
        return sum(entry.size_bytes for entry in self.storage.list(directory) if entry.name.endswith(".orc"))


def _check_complete(
    partition: HourPartition,
    old: FileCounts,
    new: FileCounts,
    layout: Layout,
    *,
    more_rows: bool,
    more_rescued: bool,
) -> None:
    """Raise Inconsistent unless all rows and values are present and, without ``more_rescued``, no more rows
    are rescued than before.
    """
    names = [slot.name for slot in layout.slots]
    lost = [
        names[slot]
        for slot, count in enumerate(old.nonnull)
        if slot > 0 and count > (new.nonnull[slot] if slot < len(new.nonnull) else 0)
    ]
    fewer = new.rows < old.rows or (new.rows > old.rows and not more_rows)
    if fewer or lost or (new.nonnull[:1] > old.nonnull[:1] and not more_rescued):
        raise Inconsistent(
            "the rewritten files of an hour lack rows or values",
            hour=partition.hour,
            rows=old.rows,
            new_rows=new.rows,
            columns=lost[:20],
            hint="The hour is unchanged. The rewritten files are in the next version directory.",
        )
