"""The quarantined tables of a policy, with the reason of each.

A permanent failure of one table must neither stop the policy nor be forgotten. Replay skips later events of a
quarantined table, so that the target keeps the last correct state, until a load or a drop of the table. The
list is part of the projection's state, with the position.

A circuit breaker limits the rate of quarantines. If several fail within minutes, the cause is probably their
environment: then the policy stops at the event and retries, instead of losing one table after the other. Two
kinds do not count: bad input, which is in the event itself, and unlogged files that are gone, because replay
loads the table again at once. Unsafe paths count: most are files outside of the directories that the
configuration allows Tideline to read, which affects many tables.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from handlers.replication.tables.table_entries import TableEntries
from state.errors import BadInput, TidelineError, TooManyFailures, UnloggedFilesGone, UnsafePath
from state.transactions.resumption import StoppedTable


BREAKER_TABLES: Final = 5
"""Tables that may be quarantined within ``BREAKER_S`` for reasons that count."""
BREAKER_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class QuarantinedTable:
    """A quarantined table, the event that failed, and why. The field names are those of the stored JSON."""

    table: str
    event_id: int
    code: str
    reason: str
    time_s: int = 0
    """Unix time; 0 in entries of older versions, which did not store it."""
    name: str | None = None
    """The table's name at its quarantine; None in entries of older versions, which stored neither this nor
    the following fields."""
    write_id: int = 0
    """The highest write id allocated on the target."""
    held: tuple[tuple[int, int], ...] = ()
    """The write ids that were open, each with its source transaction."""
    loaded_write_id: int = 0
    """The highest write id that an earlier load of the table contains."""

    def __post_init__(self) -> None:
        """Turn the lists of JSON into tuples."""
        object.__setattr__(self, "held", tuple((write_id, txn_id) for write_id, txn_id in self.held))

    @property
    def stopped(self) -> StoppedTable | None:
        """Facts about the table at its quarantine; None if they were not recorded."""
        if self.name is None:
            return None
        return StoppedTable(self.name, self.write_id, frozenset(self.held))

    def with_stop(self, stopped: StoppedTable, loaded_write_id: int) -> QuarantinedTable:
        """Return the entry with the facts about the table."""
        return replace(
            self,
            name=stopped.table,
            write_id=stopped.high_water_mark,
            held=tuple(sorted(stopped.held)),
            loaded_write_id=loaded_write_id,
        )


class Quarantine(TableEntries[QuarantinedTable]):
    """The quarantined tables of one policy, by the table name at the source."""

    prefix = b"quarantine/"
    kind = QuarantinedTable

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._clock = clock
        self._recent: deque[float] = deque()
        """When the last tables were quarantined; kept over ``load``, because a failing policy is opened again
        and again."""

    def add(self, table: str, event_id: int, error: TidelineError) -> QuarantinedTable | None:
        """Quarantine ``table`` and return the entry; None if the table is already quarantined, in which case
        the first reason stays.

        Raises TooManyFailures if ``BREAKER_TABLES`` tables were quarantined within the last ``BREAKER_S``
        seconds.
        """
        if table in self:
            return None
        now_s = self._clock()
        if isinstance(error, UnsafePath) or not isinstance(error, BadInput | UnloggedFilesGone):
            self._require_few_failures(table, event_id, error, now_s)
            self._recent.append(now_s)
        return self.put(QuarantinedTable(table, event_id, error.code, str(error), int(now_s)))

    def _require_few_failures(self, table: str, event_id: int, error: TidelineError, now_s: float) -> None:
        while self._recent and self._recent[0] <= now_s - BREAKER_S:
            self._recent.popleft()
        if len(self._recent) >= BREAKER_TABLES:
            raise TooManyFailures(
                "several tables failed in a short time",
                tables=len(self._recent),
                within_s=BREAKER_S,
                table=table,
                event_id=event_id,
                reason=str(error),
            ) from error
