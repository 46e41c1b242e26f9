"""What is done to the table between two batches: widening, sealing, dropping what is old, deleting what was replaced.

It runs in the writer itself, or from the command line while the writer is stopped, never beside a batch; before it touches
anything a decided batch is finished, so every file in the table belongs to a batch that is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streaming.split.file_columns import textual_slots
from streaming.upkeep.promotion import advance


if TYPE_CHECKING:
    from streaming.batch.runner import BatchRunner, Stream
    from streaming.upkeep.sealing import Sealer


EVERYTHING: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class UpkeepResult:
    """What a pass did."""

    sealed: int = 0
    backlog: int = 0
    """Hours that are due and left for the next pass."""
    hardening: int = 0
    """Hours left to rewrite before a type is flipped."""
    dropped: int = 0
    deleted: int = 0
    refused: str = ""
    """Why nothing is dropped, where something might be."""


class Maintenance:
    """Keeps one table."""

    def __init__(self, stream: Stream, runner: BatchRunner, sealer: Sealer) -> None:
        self._stream = stream
        self._runner = runner
        self._sealer = sealer

    def run(self, *, everything: bool = False) -> UpkeepResult:
        """Do what is due, a few hours of it or everything, and return what was done."""
        stream, rewriter = self._stream, self._sealer.rewriter
        last = stream.records.last()
        if last is None:
            return UpkeepResult()
        last = self._runner.finish(last)
        hours_max = EVERYTHING if everything else stream.settings.sealing.hours_per_pass
        state = stream.lease.hold()
        state, hardening = advance(rewriter, state, hours_max=hours_max)
        sealed, backlog = self._sealer.seal(state, last.watermark.reached_s, hours_max=hours_max)
        expiry = self._sealer.drop_expired()
        deleted = self._delete()
        assert everything <= (not textual_slots(state)), state.parameters
        return UpkeepResult(sealed, backlog, hardening, len(expiry.hours), deleted, expiry.refused)

    def _delete(self) -> int:
        """Delete what is due, by what the metastore says at this moment of where partitions lie."""
        deletions, now_s = self._sealer.rewriter.deletions, self._stream.clock()
        if all(note.due_s > now_s for note in deletions.notes()):
            return 0
        self._stream.table.forget()
        return len(deletions.sweep(self._stream.table, now_s).deleted)
