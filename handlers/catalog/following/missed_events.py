"""Events of tables under a load in the background: they apply again on top of the loaded state.

Events of a table arrive during its load. The listing may or may not contain each of them. The catalog
therefore keeps those after the beginning of the reading, and applies them once more, in their order, in the
transaction that stores the listing. So the result is the same as if the events had arrived after that
transaction.

They are in memory: a crash leaves nothing of an unfinished load, which starts again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from handlers.catalog.following.table_info import qualify
from handlers.events import Event, TableAltered, TableCreated, TableDropped
from state.errors import BadInput


@dataclass(eq=False, slots=True)
class Reading:
    """A table being read, and its events since the beginning."""

    name: str
    kind: type[Event] | None
    events: list[Event] = field(default_factory=list)
    limit: int | None = None
    """Events kept, at most; None without a separate limit."""
    is_lost: bool = False
    """Whether there were more events than that, so that none are kept."""
    is_obsolete: bool = False
    """Whether the name belongs to another table by now, which the load and the events do not concern."""


MISSED_MAX: Final = 20_000
"""Most events to keep; beyond, the catalog waits for the load."""


class MissedEvents:
    """The readings of all tables; a table may have several at the same time. Use it from one thread only."""

    def __init__(self) -> None:
        self._readings: dict[str, list[Reading]] = {}
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether there are so many events that no more may be applied until a table's reading ends."""
        return self._count >= MISSED_MAX

    def begin(self, name: str, kind: type[Event] | None = None, limit: int | None = None) -> Reading:
        """Keep the events of a table from now on, of one kind or all; keep none if there are more than
        ``limit``.
        """
        reading = Reading(name, kind, limit=limit)
        self._readings.setdefault(name, []).append(reading)
        return reading

    def note(self, event: Event) -> None:
        """Keep an event, applied or skipped, if its table is being read.

        Events that rename or drop a table end the load and are not kept.
        """
        if not self._readings or event.db is None or event.table is None:
            return
        for name in _list_replaced(event, qualify(event.db, event.table)):
            for reading in self._readings.get(name, ()):
                reading.is_obsolete = True
        for reading in self._readings.get(qualify(event.db, event.table), ()):
            if reading.is_lost or not (reading.kind is None or isinstance(event, reading.kind)):
                continue
            reading.events.append(event)
            self._count += 1
            if reading.limit is not None and len(reading.events) > reading.limit:
                self._count -= len(reading.events)
                reading.events.clear()
                reading.is_lost = True

    def end(self, reading: Reading) -> None:
        """Keep no more events of a reading; harmless for one that has ended."""
        readings = self._readings.get(reading.name, [])
        if reading in readings:
            readings.remove(reading)
            self._count -= len(reading.events)
            if not readings:
                del self._readings[reading.name]


def _list_replaced(event: Event, name: str) -> tuple[str, ...]:
    """Return the names that belong to another table, or to none, after an event of the table ``name``."""
    match event:
        case TableCreated() | TableDropped():
            return (name,)
        case TableAltered():
            try:
                before = event.before.value
            except BadInput:  # the table is in quarantine or loads again
                return ()
            old = qualify(before.dbName, before.tableName)
            return () if old == name else (old, name)
        case _:
            return ()
