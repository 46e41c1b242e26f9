"""Notifications in bulk: recorded ones, in the proportions of a metastore's log, under ids of our choice.

The events are those of ``dev/fixtures/recorded`` as a Hive 4.2 metastore logged them, compressed as it compresses them. The
proportions are those that integration tests and demo left in a real log of 1,213 events: mostly transactions and what
follows an insert (569 bytes of compressed message on average there).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from dev.fixtures.notifications import notification, write_events
from handlers.structs.notifications import NotificationEvent


if TYPE_CHECKING:
    from collections.abc import Iterator

    from handlers.structs.notifications import WriteEventInfo


SHARES: Final = {
    "OPEN_TXN": 19,
    "ALTER_TABLE": 18,
    "COMMIT_TXN": 18,
    "ALLOC_WRITE_ID_EVENT": 12,
    "ALTER_PARTITIONS": 6,
    "CREATE_TABLE": 6,
    "UPDATE_PART_COL_STAT_EVENT": 5,
    "UPDATE_TBL_COL_STAT_EVENT": 5,
    "ADD_PARTITION": 3,
    "INSERT": 2,
    "ABORT_TXN": 2,
    "CREATE_DATABASE": 2,
    "DROP_TABLE": 1,
    "DROP_PARTITION": 1,
}
"""How many of each type in 100 events."""


class RecordedLog:
    """A notification log of ``size`` recorded events with ids from 1; answers at once, so that the relay alone is measured."""

    def __init__(self, size: int) -> None:
        self._events = list(itertools.islice(_events(), size))
        self._writes = write_events("COMMIT_TXN") or []

    def connect(self) -> RecordedLog:
        """Return this log: all connections see the same."""
        return self

    def close(self) -> None:
        """Nothing to release."""

    def current_event_id(self) -> int:
        """Return the id of the newest event."""
        return len(self._events)

    def next_events(self, after: int, limit: int) -> list[NotificationEvent]:
        """Return at most ``limit`` events with ids above ``after``."""
        return self._events[after : after + limit]

    def write_events(self, txn_id: int) -> list[WriteEventInfo]:
        """Return what every commit wrote."""
        del txn_id
        return self._writes


def _events() -> Iterator[NotificationEvent]:
    """Yield events for ever, the types spread evenly."""
    recorded = [notification(kind) for kind in _spread()]
    for event_id, event in enumerate(itertools.cycle(recorded), 1):
        yield NotificationEvent(
            eventId=event_id,
            eventTime=event.eventTime,
            eventType=event.eventType,
            dbName=event.dbName,
            tableName=event.tableName,
            message=event.message,
            messageFormat=event.messageFormat,
            catName=event.catName,
        )


def _spread() -> list[str]:
    """Return the types of one round, each at even distances."""
    places = [((at + 0.5) / share, kind) for kind, share in SHARES.items() for at in range(share)]
    return [kind for _, kind in sorted(places)]
