"""The writer's lease: who may change a table's partitions, and until when.

Compare-and-set protects the table, but no Hive has it for partitions (reference: flat-tables-hive4.md §6). So the one writer
says in a table parameter that it is the one; the parameter is set by compare-and-set, so two cannot take it at once. A writer
that died holds it until it expires.

It is as good as the clocks: expiry is compared with the clock of whoever wants the lease. Hence the holder stops trusting it
``SKEW_S`` before its end, and another takes it ``SKEW_S`` after: clocks may differ by that much on either side. Every taking or
renewing is a change of the table and raises its version; renewing at half time keeps that to a few an hour.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from state.errors import StateLocked
from streaming.table.parameters import WRITER


if TYPE_CHECKING:
    from collections.abc import Callable

    from streaming.table.flat_table import FlatTable, TableState


DURATION_S: Final = 900.0
SKEW_S: Final = 30.0
_HOLDER_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What the parameter says."""

    holder: str
    until_s: float
    """Seconds since 1970."""

    @property
    def text(self) -> str:
        """The parameter's value."""
        return json.dumps({"holder": self.holder, "until": round(self.until_s)})

    @classmethod
    def read(cls, text: str | None) -> LeaseRecord | None:
        """Read the parameter; None where it is absent or unreadable, which protects nobody."""
        try:
            found = json.loads(text or "")
            return cls(str(found["holder"]), float(found["until"]))
        except (ValueError, KeyError, TypeError):
            return None


class WriterLease:
    """The lease of one table for ``holder``, a name that no other process has (host, process, start)."""

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
        """Take the lease, or renew it when half of it is gone, and return the table as it then is.

        Call it before changing partitions, and again before every long step. Raises StateLocked while another has it, Conflict
        where another took it at this very moment.
        """
        state = self._table.read()
        held, now_s = LeaseRecord.read(state.parameters.get(WRITER)), self._clock()
        if held is not None and held.holder != self._holder and now_s < held.until_s + SKEW_S:
            raise StateLocked(
                "another writer has the table",
                table=self._table.title,
                holder=held.holder,
                seconds_left=round(held.until_s + SKEW_S - now_s),
                hint="Stop it, or wait: a writer that died keeps the table until its lease expires.",
            )
        mine = held is not None and held.holder == self._holder
        if mine and held is not None and held.until_s - now_s > self._duration_s / 2:
            return state
        new = LeaseRecord(self._holder, now_s + self._duration_s)
        return self._table.alter(state, parameters={WRITER: new.text})

    def check(self, state: TableState) -> None:
        """Raise StateLocked unless ``state`` says that the lease is ours for ``SKEW_S`` at least."""
        held = LeaseRecord.read(state.parameters.get(WRITER))
        if held is None or held.holder != self._holder or self._clock() > held.until_s - SKEW_S:
            raise StateLocked("the writer's lease is lost", table=self._table.title, holder=self._holder)

    def release(self) -> None:
        """Give it back, if it is still ours."""
        state = self._table.read()
        held = LeaseRecord.read(state.parameters.get(WRITER))
        if held is not None and held.holder == self._holder:
            self._table.alter(state, parameters={WRITER: None})
