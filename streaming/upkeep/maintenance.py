"""Maintenance between two batches: promote columns, seal hours, drop old hours and delete replaced directories.

It runs in the writer itself, or from the command line while the writer is stopped, but never beside a batch. Before it changes anything
it finishes a staged batch, so every file in the table belongs to a batch that is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streaming.batch.schema_evolution import current_hour
from streaming.split.file_columns import promoting_slots
from streaming.upkeep import narrowing, promotion
from streaming.upkeep.sealing import OpenHour, find_open


if TYPE_CHECKING:
    from state.columns.paths import KeyPath
    from streaming.batch.runner import BatchRunner, Stream
    from streaming.upkeep.sealing import Sealer


EVERYTHING: Final = 1 << 30


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
    """Why no hour may be dropped; empty if dropping is allowed."""
    open: tuple[OpenHour, ...] = ()
    """The hours that are not sealed, in order."""


class Maintenance:
    """Maintains one table."""

    def __init__(self, stream: Stream, runner: BatchRunner, sealer: Sealer) -> None:
        self._stream = stream
        self._runner = runner
        self._sealer = sealer

    def run(self, *, everything: bool = False) -> UpkeepResult:
        """Do what is due, limited to a few hours unless ``everything`` is set, and return the outcome."""
        stream, rewriter = self._stream, self._sealer.rewriter
        last = stream.records.last()
        if last is None:
            return UpkeepResult()
        last = self._runner.finish(last)
        hours_max = EVERYTHING if everything else stream.settings.sealing.hours_per_pass
        state = stream.lease.hold()
        state, rewrites_left = promotion.advance(rewriter, state, hours_max=hours_max)
        state, narrowing_left, narrowed = narrowing.advance(rewriter, state, hours_max=hours_max)
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
        """Count the misfits of a narrowed column as values, or they would promote it again."""
        file = self._stream.hour_counts
        counts = file.load().without_misfits(key)
        file.save(counts, current_hour(counts, reached_s))

    def _delete(self) -> int:
        """Delete directories that are due, according to the current partitions in the metastore.

        Before that, the record for readers without a metastore is written, even if only users have dropped partitions.
        """
        deletions, now_s = self._sealer.rewriter.deletions, self._stream.clock()
        self._stream.table.forget_if_changed()
        self._stream.current.write(self._stream.table.read())
        if all(note.due_s > now_s for note in deletions.notes()):
            return 0
        self._stream.table.forget()
        return len(deletions.sweep(self._stream.table, now_s).deleted)
