"""Sealing: an hour that expects no more rows is compacted and counts as complete.

An hour is due when the watermark has passed its end by the permitted lateness. Later rows open it again; it is then due when the
watermark has advanced by the lateness since. Only a few hours are sealed between two batches, the oldest first, so that a stream that
catches up after a stop is not delayed by its backlog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from state.columns.slots.slots import HOUR_S
from streaming.table.parameters import LAST_NARROWING, LAST_PROMOTION, LAYOUT_VERSION, TOUCHED, VALUES
from streaming.table.retention import Expiry, RetentionRules, drop_hours, find_expired
from streaming.table.value_counts import parse_counts


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from streaming.settings import EventTime, FlatSettings
    from streaming.table.flat_table import HourPartition, TableState
    from streaming.upkeep.rewriting import Rewriter


def find_due(
    partitions: Sequence[HourPartition], reached_s: int | None, lateness_s: int
) -> list[HourPartition]:
    """Return the hours to seal, the oldest first."""
    if reached_s is None:
        return []
    return [each for each in partitions if not each.is_sealed and reached_s >= _last_s(each) + lateness_s]


@dataclass(frozen=True, slots=True)
class OpenHour:
    """An hour that is not sealed."""

    hour: int
    due_s: int
    """The event time that the watermark must reach before the hour is sealed."""
    reached_s: int | None
    """The event time that the watermark has reached."""


def find_open(
    partitions: Sequence[HourPartition], reached_s: int | None, when: EventTime
) -> tuple[OpenHour, ...]:
    """Return the hours that are not sealed, and the watermark that each of them waits for."""
    return tuple(
        OpenHour(each.hour, _last_s(each) + when.lateness_s, reached_s)
        for each in partitions
        if not each.is_sealed
    )


def find_outgrown(partitions: Sequence[HourPartition], state: TableState) -> list[HourPartition]:
    """Return the sealed hours that a change of a column's type left to be rewritten.

    These are hours with rows in ``_rescued`` that may fit now, because a column became STRING since the hours were written, and hours
    that hold the numbers of a narrowed column as text.
    """
    since = int(state.parameters.get(LAST_PROMOTION, 0))
    narrowed = int(state.parameters.get(LAST_NARROWING, 0))
    found = []
    for each in partitions:
        version = int(each.parameters.get(LAYOUT_VERSION, 0))
        has_rescued = any(parse_counts(each.parameters.get(VALUES, ""))[:1])
        if each.is_sealed and (version < narrowed or (version < since and has_rescued)):
            found.append(each)
    return found


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals hours, and drops hours that are older than the retention."""

    settings: FlatSettings
    rewriter: Rewriter
    clock: Callable[[], float]

    def seal(
        self, state: TableState, reached_s: int | None, *, hours_max: int | None = None
    ) -> tuple[int, int]:
        """Seal hours that are due; return how many were sealed and how many are left."""
        table = self.rewriter.table
        partitions = table.partitions()
        self.rewriter.note_replaced(partitions)
        waiting = find_due(partitions, reached_s, self.settings.event_time.lateness_s) + find_outgrown(
            partitions, state
        )
        chosen = waiting[: hours_max or self.settings.sealing.hours_per_pass]
        for done, partition in enumerate(chosen, 1):
            self.rewriter.rewrite(partition, state, sealed=True)
            self.rewriter.report("sealed", partition.hour, done, len(chosen))
        return len(chosen), len(waiting) - len(chosen)

    def drop_expired(self) -> Expiry:
        """Drop hours that are older than the retention, a limited number per call."""
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
    """Return the event time until which rows arrived: the hour's end, or later if rows arrived later."""
    return max(partition.hour + HOUR_S, int(partition.parameters.get(TOUCHED, 0)))
