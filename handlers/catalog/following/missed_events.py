"""Events of tables that are being read in the background: they are applied again on top of what was read.

While a table is read, its events arrive. The listing may or may not contain each of them. Those after the beginning of the reading are
therefore kept, and applied once more, in their order, in the transaction that stores the listing. So the result is the same as if the
events had arrived after that transaction.

They are kept in memory: after a crash nothing of what was being read is stored, and it is read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.catalog.following.table_info import qualify


if TYPE_CHECKING:
    from handlers.events import Event


MISSED_MAX: Final = 20_000
"""Events that are kept, at most; then the catalog waits for what is being read."""


class MissedEvents:
    """For one thread."""

    def __init__(self) -> None:
        self._by_table: dict[str, list[Event]] = {}
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether no more events should be applied before the reading of a table has ended."""
        return self._count >= MISSED_MAX

    def begin(self, name: str) -> None:
        """Keep the events of a table from now on."""
        self._by_table[name] = []

    def note(self, event: Event) -> None:
        """Keep an event that was applied or skipped, if its table is being read.

        Events that rename or drop a table need not be kept: they end what is being read.
        """
        if not self._by_table or event.db is None or event.table is None:
            return
        kept = self._by_table.get(qualify(event.db, event.table))
        if kept is not None:
            kept.append(event)
            self._count += 1

    def end(self, name: str) -> list[Event]:
        """Return the events since ``begin`` and keep no more."""
        events = self._by_table.pop(name, [])
        self._count -= len(events)
        return events
