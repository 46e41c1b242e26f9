"""Sealing: when no more rows are expected for an hour, it is compacted, and counts as complete.

An hour is due when the watermark has passed its end by the lateness that events may have. Rows that come later still open it
again: it is due anew when the watermark has gone on by as much since. Few hours are sealed between two batches, the oldest
first, so that a stream that catches up after a stop is not held up by its own past.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from state.columns.slots import HOUR_S
from streaming.table.parameters import LAST_PROMOTION, LAYOUT_VERSION, TOUCHED, VALUES
from streaming.table.retention import Expiry, RetentionRules, drop_hours, find_expired
from streaming.table.value_counts import parse_counts


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streaming.settings import FlatSettings
    from streaming.table.flat_table import HourPartition, TableState
    from streaming.upkeep.rewriting import Rewriter


def find_due(
    partitions: Sequence[HourPartition], reached_s: int | None, lateness_s: int
) -> list[HourPartition]:
    """Return the hours that are to be sealed, the oldest first."""
    if reached_s is None:
        return []
    return [each for each in partitions if not each.is_sealed and reached_s >= _last_s(each) + lateness_s]


def find_outgrown(partitions: Sequence[HourPartition], state: TableState) -> list[HourPartition]:
    """Return the sealed hours with rows in ``_rescued`` that may fit by now: a column became STRING since they were written."""
    since = int(state.parameters.get(LAST_PROMOTION, 0))
    return [
        each
        for each in partitions
        if each.is_sealed
        and int(each.parameters.get(LAYOUT_VERSION, 0)) < since
        and any(parse_counts(each.parameters.get(VALUES, ""))[:1])
    ]


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals, and drops what is too old."""

    settings: FlatSettings
    rewriter: Rewriter
    clock: Callable[[], float]

    def seal(
        self, state: TableState, reached_s: int | None, *, hours_max: int | None = None
    ) -> tuple[int, int]:
        """Seal what is due; return how many hours were sealed and how many are left."""
        table = self.rewriter.table
        partitions = table.partitions()
        self.rewriter.note_replaced(partitions)
        waiting = find_due(partitions, reached_s, self.settings.event_time.lateness_s) + find_outgrown(
            partitions, state
        )
        chosen = waiting[: hours_max or self.settings.sealing.hours_per_pass]
        for partition in chosen:
            self.rewriter.rewrite(partition, state, sealed=True)
        return len(chosen), len(waiting) - len(chosen)

    def drop_expired(self) -> Expiry:
        """Drop the hours that are older than partitions are kept, a few per call."""
        table = self.rewriter.table
        partitions = table.partitions()
        rules = RetentionRules(keep_s=self.settings.retention_s)
        sealed = [each.hour for each in partitions if each.is_sealed]
        expiry = find_expired([each.hour for each in partitions], sealed, self.clock(), rules)
        old = [each for each in partitions if each.hour in set(expiry.hours)]
        if old:
            drop_hours(table, old, self.rewriter.deletions, self.clock() + self.settings.sealing.old_files_s)
        return expiry


def _last_s(partition: HourPartition) -> int:
    """The moment in event time until when rows came: the hour's end, or later where rows came later."""
    return max(partition.hour + HOUR_S, int(partition.parameters.get(TOUCHED, 0)))
