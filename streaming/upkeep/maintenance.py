"""Maintenance between two batches: change types of columns, seal hours, drop old hours and delete replaced
directories.

The driver seals (compacts) an hour when it expects no more rows: when the watermark is ``lateness_s`` after
the end of the hour and after the last arrival of a row.

Maintenance runs in the writer itself, or from the command line while the writer is stopped, but never in
parallel with a batch. Before it changes anything it finishes a staged batch, so every file in the table
belongs to a batch that is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from state.columns.paths import KeyPath
from state.columns.slots import HOUR_S
from streaming.batch.runner import BatchRunner, Stream
from streaming.batch.schema_evolution import current_hour
from streaming.settings import EventTime, FlatSettings
from streaming.split.file_columns import promoting_slots
from streaming.table.flat_table import HourPartition, TableState
from streaming.table.parameters import LAST_NARROWING, LAST_PROMOTION, LAYOUT_VERSION, TOUCHED, VALUES
from streaming.table.retention import Expiry, RetentionRules, drop_hours, find_expired
from streaming.table.value_counts import parse_counts
from streaming.upkeep.rewriting import Rewriter
from streaming.upkeep.type_changes import advance_narrowing, advance_promotion


EVERYTHING: Final = 1 << 30


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
    """The event time that the watermark must reach before sealing."""
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
    """Return the sealed hours that have to be rewritten after a change of a column's type.

    These are hours with rows in ``_rescued`` that may fit now because a column has become STRING, and hours
    that hold the numbers of a narrowed column as text.
    """
    since = int(state.parameters.get(LAST_PROMOTION, 0))
    narrowed = int(state.parameters.get(LAST_NARROWING, 0))
    outgrown = []
    for each in partitions:
        version = int(each.parameters.get(LAYOUT_VERSION, 0))
        has_rescued = any(parse_counts(each.parameters.get(VALUES, ""))[:1])
        if each.is_sealed and (version < narrowed or (version < since and has_rescued)):
            outgrown.append(each)
    return outgrown


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals hours, and drops hours that are older than the retention."""

    settings: FlatSettings
    rewriter: Rewriter
    clock: Callable[[], float]

    def seal(
        self, state: TableState, reached_s: int | None, *, hours_max: int | None = None
    ) -> tuple[int, int]:
        """Seal due hours; return how many were sealed and how many remain."""
        table = self.rewriter.table
        partitions = table.partitions()
        self.rewriter.note_replaced(partitions)
        waiting = find_due(partitions, reached_s, self.settings.event_time.lateness_s) + find_outgrown(
            partitions, state
        )
        hours = waiting[: hours_max or self.settings.sealing.hours_per_pass]
        for done, partition in enumerate(hours, 1):
            self.rewriter.rewrite(partition, state, sealed=True)
            self.rewriter.report("sealed", partition.hour, done, len(hours))
        return len(hours), len(waiting) - len(hours)

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
    """Return the event time until which rows arrived, at least the end of the hour."""
    return max(partition.hour + HOUR_S, int(partition.parameters.get(TOUCHED, 0)))


@dataclass(frozen=True, slots=True)
class UpkeepResult:
    """The outcome of a pass."""

    sealed: int = 0
    backlog: int = 0
    """Hours that are due but left for the next pass."""
    rewrites_left: int = 0
    """Hours left to rewrite before a promoted or narrowed column changes its type."""
    dropped: int = 0
    deleted: int = 0
    refused: str = ""
    """Why it may drop no hour; empty if it may."""
    open: tuple[OpenHour, ...] = ()
    """The hours that are not sealed, in order."""


class Maintenance:
    """Maintains one table."""

    def __init__(self, stream: Stream, runner: BatchRunner, sealer: Sealer) -> None:
        self._stream = stream
        self._runner = runner
        self._sealer = sealer

    def run(self, *, everything: bool = False) -> UpkeepResult:
        """Run the due tasks, limited to a few hours unless ``everything`` is set, and return the outcome."""
        stream, rewriter = self._stream, self._sealer.rewriter
        last = stream.records.last()
        if last is None:
            return UpkeepResult()
        last = self._runner.finish(last)
        hours_max = EVERYTHING if everything else stream.settings.sealing.hours_per_pass
        state = stream.lease.hold()
        state, rewrites_left = advance_promotion(rewriter, state, hours_max=hours_max)
        state, narrowing_left, narrowed = advance_narrowing(rewriter, state, hours_max=hours_max)
        if narrowed is not None:
            self._forget_misfits(narrowed, last.watermark.reached_s)
        sealed, backlog = self._sealer.seal(state, last.watermark.reached_s, hours_max=hours_max)
        expiry = self._sealer.drop_expired()
        deleted = self._delete()
        assert everything <= (not promoting_slots(state)), state.parameters
        open_hours = find_open(
            stream.table.partitions(), last.watermark.reached_s, stream.settings.event_time
        )
        return UpkeepResult(
            sealed,
            backlog,
            rewrites_left + narrowing_left,
            len(expiry.hours),
            deleted,
            expiry.refused,
            open_hours,
        )

    def _forget_misfits(self, key: KeyPath, reached_s: int | None) -> None:
        """Count the misfits of a narrowed column as values; otherwise they would cause another promotion."""
        file = self._stream.hour_counts
        counts = file.load().without_misfits(key)
        file.save(counts, current_hour(counts, reached_s))

    def _delete(self) -> int:
        """Delete due directories that no partition in the metastore uses.

        First, writes the record for readers without a metastore, because users may have dropped partitions.
        """
        deletions, now_s = self._sealer.rewriter.deletions, self._stream.clock()
        self._stream.table.forget_if_changed()
        self._stream.current.write(self._stream.table.read())
        if all(note.due_s > now_s for note in deletions.notes()):
            return 0
        self._stream.table.forget()
        return len(deletions.sweep(self._stream.table, now_s).deleted)
