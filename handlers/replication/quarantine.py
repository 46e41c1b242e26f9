"""The quarantined tables of a policy, with the reason of each.

A permanent failure of one table must neither stop the policy nor be forgotten. Later events of a quarantined table are
skipped, so that the target keeps the last correct state, until the table is bootstrapped again or dropped. The list is part
of the projection's state and is written together with its position.

A circuit breaker limits how fast tables are quarantined. If several fail within minutes, the cause is probably their
environment: then the policy stops at the event and retries, instead of losing one table after the other. Bad input does not
count: it is in the event itself, whatever the environment does.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import orjson

from state.errors import BadInput, StateCorrupt, TidelineError, TooManyFailures
from state.store import Reader, Transaction, prefix_end


if TYPE_CHECKING:
    from collections.abc import Callable


BREAKER_TABLES: Final = 5
"""Tables that may be quarantined within ``BREAKER_S`` for other reasons than bad input."""
BREAKER_S: Final = 300.0

_PREFIX: Final = b"quarantine/"


@dataclass(frozen=True, slots=True)
class QuarantinedTable:
    """A quarantined table, the event that failed, and why. The field names are those of the stored JSON."""

    table: str
    event_id: int
    code: str
    reason: str
    time_s: int = 0
    """Unix time; 0 in entries of older versions, which did not store it."""


class Quarantine:
    """The quarantined tables of one policy, by the table name at the source."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._tables: dict[str, QuarantinedTable] = {}
        self._dirty: set[str] = set()
        self._clock = clock
        self._recent: deque[float] = deque()
        """When the last tables were quarantined; kept over ``load``, because a failing policy is opened again and again."""

    def load(self, reader: Reader) -> None:
        """Read the stored list; raise StateCorrupt if an entry cannot be read."""
        self._dirty.clear()
        self._tables.clear()
        for key, value in reader.scan(_PREFIX, prefix_end(_PREFIX)):
            try:
                entry = QuarantinedTable(**orjson.loads(value))
            except (TypeError, orjson.JSONDecodeError) as error:
                raise StateCorrupt("a quarantine entry cannot be read", key=key, reason=str(error)) from error
            self._tables[entry.table] = entry

    def flush(self, txn: Transaction) -> None:
        """Write the changes."""
        for table in self._dirty:
            key = _PREFIX + table.encode()
            entry = self._tables.get(table)
            if entry is None:
                txn.delete(key)
            else:
                fields = {name: getattr(entry, name) for name in QuarantinedTable.__slots__}
                txn.put(key, orjson.dumps(fields))
        self._dirty.clear()

    @property
    def unsaved(self) -> bool:
        """Whether there are changes that are not stored yet."""
        return bool(self._dirty)

    def add(self, table: str, event_id: int, error: TidelineError) -> QuarantinedTable | None:
        """Quarantine ``table`` and return the entry; None if it already is quarantined, and then the first reason stays.

        Raises TooManyFailures if ``BREAKER_TABLES`` tables were quarantined within the last ``BREAKER_S`` seconds.
        """
        if table in self._tables:
            return None
        now_s = self._clock()
        if not isinstance(error, BadInput):
            self._require_few_failures(table, event_id, error, now_s)
            self._recent.append(now_s)
        entry = self._tables[table] = QuarantinedTable(table, event_id, error.code, str(error), int(now_s))
        self._dirty.add(table)
        return entry

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

    def release(self, table: str) -> None:
        """Follow ``table`` again, as after a drop or a new bootstrap; do nothing if it is not quarantined."""
        if self._tables.pop(table, None) is not None:
            self._dirty.add(table)

    def release_all(self) -> None:
        """Follow every table again, as after a drop of the database."""
        for table in tuple(self._tables):
            self.release(table)

    def rename(self, old: str, new: str) -> None:
        """Move the entry of ``old``, if any, to the table's new name."""
        entry = self._tables.get(old)
        if entry is not None:
            self.release(old)
            self._tables[new] = replace(entry, table=new)
            self._dirty.add(new)

    def get(self, table: str) -> QuarantinedTable | None:
        """Return the entry of a table; None if it is not quarantined."""
        return self._tables.get(table)

    def __contains__(self, table: object) -> bool:
        """Whether the table is quarantined."""
        return table in self._tables

    def entries(self) -> tuple[QuarantinedTable, ...]:
        """Return all entries, by table name."""
        return tuple(self._tables[table] for table in sorted(self._tables))
