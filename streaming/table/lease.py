"""The writer's lease: who may change a table's partitions, and until when.

Compare-and-set protects the table, but no Hive version offers it for partitions (reference:
flat-tables-hive4.md §6). So the writer records itself in a table parameter by compare-and-set, which two
writers cannot do at once. The lease of a writer that has died remains until it expires.

The lease depends on clocks, because a process compares the end of another's lease with its own clock.
Therefore the holder stops using the lease ``SKEW_S`` before its end, and others acquire it ``SKEW_S`` after
its end, so each clock may be off by that much. Every acquisition or renewal is a change of the table and
raises its version. Renewing at half of the duration limits this to a few times per hour.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from state.errors import StateLocked
from streaming.table.flat_table import FlatTable, TableState
from streaming.table.parameters import WRITER


DURATION_S: Final = 900.0
SKEW_S: Final = 30.0
_HOLDER_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of the lease parameter."""

    holder: str
    until_s: float
    """End of the lease in seconds since 1970."""

    @property
    def text(self) -> str:
        """The value of the parameter."""
        return json.dumps({"holder": self.holder, "until": round(self.until_s)})

    @classmethod
    def parse(cls, text: str | None) -> LeaseRecord | None:
        """Return the lease from a parameter; None if the parameter is missing or unreadable, which counts as
        no lease.
        """
        try:
            form = json.loads(text or "")
            return cls(str(form["holder"]), float(form["until"]))
        except (ValueError, KeyError, TypeError):
            return None


class WriterLease:
    """The lease of one table for ``holder``, the unique name of a writer."""

    def __init__(
        self,
        table: FlatTable,
        holder: str,
        *,
        duration_s: float = DURATION_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        assert duration_s > 4 * SKEW_S, duration_s
        assert 0 < len(holder) <= _HOLDER_CHARS_MAX, holder
        self._table = table
        self._holder = holder
        self._duration_s = duration_s
        self._clock = clock

    def hold(self) -> TableState:
        """Acquire the lease, or renew it after half of its duration, and return the state of the table.

        Call it before changing partitions and again before every long step. Raises StateLocked while another
        writer holds the lease, and Conflict if another writer acquires it at the same moment.
        """
        state = self._table.read()
        record, now_s = LeaseRecord.parse(state.parameters.get(WRITER)), self._clock()
        if record is not None and record.holder != self._holder and now_s < record.until_s + SKEW_S:
            raise StateLocked(
                "another writer holds the table's lease",
                table=self._table.title,
                holder=record.holder,
                seconds_left=round(record.until_s + SKEW_S - now_s),
                hint="Stop the other writer, or wait: the lease of a writer that crashed expires on its own.",
            )
        mine = record is not None and record.holder == self._holder
        if mine and record is not None and record.until_s - now_s > self._duration_s / 2:
            return state
        new = LeaseRecord(self._holder, now_s + self._duration_s)
        return self._table.alter(state, parameters={WRITER: new.text})

    def check(self, state: TableState) -> None:
        """Raise StateLocked unless this writer holds the
        lease in ``state`` for at least another ``SKEW_S``.
        """
        record = LeaseRecord.parse(state.parameters.get(WRITER))
        if record is None or record.holder != self._holder or self._clock() > record.until_s - SKEW_S:
            raise StateLocked("the writer lost its lease", table=self._table.title, holder=self._holder)
