"""A notification log in memory, with recorded notifications in the proportions of a real log and ids from 1.

The events are from ``dev/fixtures/recorded``, where a Hive 4.2 metastore logged and compressed them. The
proportions are from a real log of 1,213 events of integration tests and demo: mostly transactions, and the
events of inserts (on average 569 bytes of compressed message).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from dev.fixtures.notifications import notification, write_events
from handlers.metastore.calls import Receiver
from handlers.structs.notifications import NotificationEvent, WriteEventInfo
from handlers.structs.objects import Partition, Table
from handlers.structs.transactions import GetOpenTxnsInfoResponse
from state.errors import NotFound


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
"""The number of events of each type in 100 events."""


class RecordedLog:
    """A notification log of ``size`` recorded events. It answers immediately, so that the benchmark measures
    only the relay.
    """

    def __init__(self, size: int) -> None:
        self._events = list(itertools.islice(_generate_events(), size))
        self._writes = write_events("COMMIT_TXN") or []

    def connect(self) -> RecordedLog:
        """Return this log, which all connections share."""
        return self

    def close(self) -> None:
        """Do nothing."""

    def current_event_id(self) -> int:
        """Return the id of the newest event."""
        return len(self._events)

    def open_txns_info(self) -> GetOpenTxnsInfoResponse:
        """Return an answer without open transactions."""
        return GetOpenTxnsInfoResponse(txn_high_water_mark=0, open_txns=[])

    def next_events(self, after: int, limit: int) -> list[NotificationEvent]:
        """Return at most ``limit`` events with ids above ``after``."""
        return self._events[after : after + limit]

    def receive_write_events(
        self, txn_id: int, receiver: Receiver, *, db: str | None = None, table: str | None = None
    ) -> None:
        """Pass the write events to the receiver; they are the same for every commit."""
        del db, table
        receiver.restart()
        for write in self.write_events(txn_id):
            receiver.receive(write)

    def write_events(self, txn_id: int) -> list[WriteEventInfo]:
        """Return the write events."""
        del txn_id
        return self._writes

    def has_event(self, event_id: int, db: str, tables: Sequence[str] = ()) -> bool:
        """Return False: the relay searches only for events that it cannot read."""
        del event_id, db, tables
        return False

    def get_table(self, db: str, name: str) -> Table:
        """Raise NotFound: the relay reads only tables with partitions that Hive did not log."""
        raise NotFound("the recorded log has no tables", db=db, table=name)

    def get_partitions(
        self, db: str, table: str, names: Sequence[str], *, with_columns: bool = True
    ) -> list[Partition]:
        """Return nothing."""
        del db, table, names, with_columns
        return []

    def partition_names(self, db: str, table: str, *, limit: int | None = None) -> list[str]:
        """Return nothing."""
        del db, table, limit
        return []

    def table_events(
        self, after: int, db: str, table: str, kinds: Sequence[str], limit: int
    ) -> list[NotificationEvent]:
        """Return nothing."""
        del after, db, table, kinds, limit
        return []

    def database_names(self) -> list[str]:
        """Return nothing."""
        return []

    def table_names(self, db: str) -> list[str]:
        """Return nothing."""
        del db
        return []


def _generate_events() -> Iterator[NotificationEvent]:
    """Yield events endlessly, with the types spread evenly."""
    recorded = [notification(kind) for kind in _spread_kinds()]
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


def _spread_kinds() -> list[str]:
    """Return the types of one round, each at equal distances."""
    positions = [((at + 0.5) / share, kind) for kind, share in SHARES.items() for at in range(share)]
    return [kind for _, kind in sorted(positions)]
