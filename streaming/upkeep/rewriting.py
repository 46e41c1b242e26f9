"""An hour written anew: compaction, widening and backfill are all this, with other rows.

The new files go to the next version of the hour's directory, which nobody reads, so a crash leaves nothing but a directory that the
next attempt overwrites. They are counted against the old ones; then one call of the metastore switches the partition, and a
query sees all of the old or all of the new. The old directory is deleted later, when no query can still be reading it.

While rows are in our hands, those in ``_rescued`` are split once more: with columns that became wider since, their values fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from handlers.failpoints import failpoint
from state.columns.slots import RESCUED, SlotState
from state.errors import Inconsistent
from streaming.batch.observations import merge_counts
from streaming.split.file_columns import slot_columns, textual_slots
from streaming.split.parse_schema import quote
from streaming.split.splitter import split
from streaming.table.hours import parse_version, version_directory
from streaming.table.parameters import FLAT_BYTES, LAYOUT_VERSION, REPLACED, ROWS, SEALED, VALUES
from streaming.table.value_counts import format_counts, format_nonnull, list_data_files


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from handlers.files.paths import Location
    from state.columns.paths import KeyPath
    from state.columns.slots import Layout
    from streaming.batch.observations import FileCounts
    from streaming.batch.sampling import Sampler
    from streaming.settings import FlatSettings
    from streaming.table.flat_table import FlatTable, HourPartition, TableState
    from streaming.table.lease import WriterLease
    from streaming.table.retention import Deletions
    from streaming.table.storage import Storage


_OLD: Final = "_tideline_old_{}"


def split_rescued_again(rows: Any, layout: Layout, numeric_strings: Collection[KeyPath] = ()) -> Any:
    """Return ``rows`` (all slots by name) with those in ``_rescued`` split once more.

    Slots without a key keep what they hold.
    """
    from pyspark.sql import functions

    empty = [slot for slot in layout.slots if slot.state is SlotState.EMPTY]
    rescued = functions.col(RESCUED).isNotNull()
    old = [f"{quote(slot.name)} AS {_OLD.format(slot.index)}" for slot in empty]
    texts = rows.filter(rescued).selectExpr(f"{RESCUED} AS value", *old)
    kept = [_OLD.format(slot.index) for slot in empty]
    fresh = split(texts, layout, keep=kept, numeric_strings=numeric_strings)
    columns = [
        f"{_OLD.format(slot.index)} AS {quote(slot.name)}"
        if slot.state is SlotState.EMPTY
        else quote(slot.name)
        for slot in layout.slots
    ]
    return rows.filter(~rescued).unionByName(fresh.selectExpr(*columns))


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Writes hours of one table anew. The caller holds the writer's lease, and no batch is half published."""

    spark: Any
    settings: FlatSettings
    table: FlatTable
    lease: WriterLease
    storage: Storage
    deletions: Deletions
    sampler: Sampler
    clock: Callable[[], float]

    def rewrite(
        self,
        partition: HourPartition,
        state: TableState,
        *,
        sealed: bool,
        replaced_by: Any = None,
        more_rows: bool = False,
    ) -> HourPartition:
        """Write the hour anew and switch it.

        ``replaced_by`` are its rows where they come from elsewhere (a backfill), then perhaps with ``more_rows`` than before.
        Raises Inconsistent where the new files do not hold as many rows and values as the old; the hour is as it was then.
        """
        files = self.sampler.list_files(str(partition.location))
        if not files:
            written = {LAYOUT_VERSION: str(state.version), SEALED: "true" if sealed else None}
            return self.table.set_hour_parameters(partition.hour, written)
        place = self._next(partition)
        old = merge_counts(self.sampler.read_counts(files))
        rows = self.read(files, state.layout) if replaced_by is None else replaced_by
        self._write(rows if replaced_by is not None else self._resplit(rows, old, state), state, place, files)
        failpoint("flat.rewritten")
        new_files = self.sampler.list_files(str(place))
        new = merge_counts(self.sampler.read_counts(new_files))
        _check(partition, old, new, state.layout, more_rows=more_rows)
        return self._switch(partition, self.lease.hold(), place, new, sealed=sealed)

    def read(self, files: Sequence[str], layout: Layout) -> Any:
        """Return the rows of these files, all slots by name."""
        schema = ", ".join(f"{quote(slot.name)} {slot.type.hive}" for slot in layout.slots)
        return self.spark.read.schema(schema).orc(list(files))

    def note_replaced(self, partitions: Sequence[HourPartition]) -> None:
        """Have replaced directories deleted later; repeats what a crash kept from being noted."""
        for partition in partitions:
            old = partition.parameters.get(REPLACED)
            if old is None:
                continue
            due_s = self.clock() + self.settings.sealing.old_files_s
            self.deletions.note(partition.location.parent.child(old), due_s, "replaced")
            self.table.set_hour_parameters(partition.hour, {REPLACED: None})

    def _resplit(self, rows: Any, old: FileCounts, state: TableState) -> Any:
        if not (old.nonnull and old.nonnull[0]):
            return rows
        return split_rescued_again(rows, state.layout, self.settings.rules.numeric_strings)

    def _next(self, partition: HourPartition) -> Location:
        version = parse_version(partition.location)
        if version is None:
            raise Inconsistent(
                "a partition's directory is none of Tideline's", location=str(partition.location)
            )
        place = version_directory(partition.location.parent, version + 1)
        self.storage.remove(str(place))
        return place

    def _write(self, rows: Any, state: TableState, place: Location, files: Sequence[str]) -> None:
        size = self._size(files[0].rpartition("/")[0])
        count = max(1, -(-size // self.settings.sealing.file_bytes))
        columns = slot_columns(state.layout, textual_slots(state))
        writer = rows.selectExpr(*columns).coalesce(count).write.mode("overwrite")
        writer.option("compression", self.settings.compression).orc(str(place))

    def _switch(
        self,
        partition: HourPartition,
        state: TableState,
        place: Location,
        counts: FileCounts,
        *,
        sealed: bool,
    ) -> HourPartition:
        failpoint("flat.switch")
        switched = self.table.switch_hour(
            partition.hour,
            place,
            {
                ROWS: str(counts.rows),
                VALUES: format_counts(counts.nonnull),
                **format_nonnull(state.version, counts.nonnull, list_data_files(self.storage, str(place))),
                FLAT_BYTES: str(self._size(str(place))),
                SEALED: "true" if sealed else None,
                REPLACED: partition.location.name,
            },
        )
        failpoint("flat.switched")
        self.note_replaced([switched])
        failpoint("flat.replaced")
        return switched

    def _size(self, directory: str) -> int:
        return sum(found.size_bytes for found in self.storage.list(directory) if found.name.endswith(".orc"))


def _check(
    partition: HourPartition, old: FileCounts, new: FileCounts, layout: Layout, *, more_rows: bool
) -> None:
    """Raise Inconsistent unless every row and every value is there, and no more rows are rescued than before."""
    names = [slot.name for slot in layout.slots]
    lost = [
        names[slot]
        for slot, count in enumerate(old.nonnull)
        if slot > 0 and count > (new.nonnull[slot] if slot < len(new.nonnull) else 0)
    ]
    fewer = new.rows < old.rows or (new.rows > old.rows and not more_rows)
    if fewer or lost or (new.nonnull[:1] > old.nonnull[:1] and not more_rows):
        raise Inconsistent(
            "an hour written anew would not hold what it held",
            hour=partition.hour,
            rows=old.rows,
            new_rows=new.rows,
            columns=lost[:20],
            hint="The hour was left as it is; its new directory is beside it.",
        )
