"""The notification log and the write events of a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Final

from handlers.metastore.calls import V3_1, Call, ListCall, Receiver
from handlers.metastore.session import Session
from handlers.structs.exceptions import MetaException
from handlers.structs.notifications import (
    CurrentNotificationEventId,
    GetAllWriteEventInfoRequest,
    NotificationEvent,
    NotificationEventRequest,
    NotificationEventResponse,
    NotificationEventsCountRequest,
    NotificationEventsCountResponse,
    WriteEventInfo,
)


_CURRENT: Final = Call("get_current_notificationEventId", {}, CurrentNotificationEventId, (), changes=False)
_NEXT: Final = Call(
    "get_next_notification", {"rqst": NotificationEventRequest}, NotificationEventResponse, (), changes=False
)
_WRITE_EVENTS: Final = Call(
    "get_all_write_event_info",
    {"request": GetAllWriteEventInfoRequest},
    list[WriteEventInfo],
    (MetaException,),
    changes=False,
    since=V3_1,  # of vendors; Apache's 3.1 answers that it has no such method
)
_EACH_WRITE_EVENT: Final = ListCall(
    "get_all_write_event_info",
    {"request": GetAllWriteEventInfoRequest},
    NoneType,
    (MetaException,),
    changes=False,
    since=V3_1,
    element=WriteEventInfo,
)
_COUNT: Final = Call(
    "get_notification_events_count",
    {"rqst": NotificationEventsCountRequest},
    NotificationEventsCountResponse,
    (),
    changes=False,
    since=V3_1,
)


class NotificationCalls(Session):
    """Calls that read the notification log."""

    def current_event_id(self) -> int:
        """Return the id of the newest event; 0 if there never was one."""
        return self._invoke(_CURRENT).eventId

    def next_events(self, after: int, limit: int) -> list[NotificationEvent]:
        """Return at most ``limit`` events with ids above ``after``, in ascending order.

        It does not filter the events: only then does a missing id prove a purge (reference:
        hive-replication.md §1.5).
        """
        request = NotificationEventRequest(lastEvent=after, maxEvents=limit)
        return self._invoke(_NEXT, request).events or []

    def table_events(
        self, after: int, db: str, table: str, kinds: Sequence[str], limit: int
    ) -> list[NotificationEvent]:
        """Return at most ``limit`` events of a table, of these kinds and with ids above ``after``.

        Hive 4.0 does not know the filter by kind, so that other kinds count towards the limit.
        """
        request = NotificationEventRequest(
            lastEvent=after, maxEvents=limit, dbName=db, tableNames=[table], eventTypeList=list(kinds)
        )
        events = self._invoke(_NEXT, request).events or []
        return events if len(events) >= limit else [each for each in events if each.eventType in kinds]

    def write_events(self, txn_id: int, *, db: str | None = None) -> list[WriteEventInfo]:
        """Return the writes of a transaction, by table and partition; empty if there are none or its events
        are gone.

        ``db`` limits the answer to one database.

        Raises Unsupported before Hive 4.0, if no call returns write events.
        """
        return self._invoke(_WRITE_EVENTS, GetAllWriteEventInfoRequest(txnId=txn_id, dbName=db))

    def receive_write_events(self, txn_id: int, receiver: Receiver, *, db: str | None = None) -> None:
        """Pass on the writes of a transaction, one write event at a time; optionally only into one database.

        The time-out counts from the last byte that arrived. Raises as ``write_events``.
        """
        request = GetAllWriteEventInfoRequest(txnId=txn_id, dbName=db)
        self._invoke(_EACH_WRITE_EVENT, request, receiver)

    def has_event(self, event_id: int, db: str, tables: Sequence[str] = ()) -> bool:
        """Return whether the event concerns ``db`` (and,
        if given, one of ``tables``), without reading its message.

        Raises Unsupported before Hive 4, which cannot limit the range of ids.
        """
        self._require_hive_4_for(_COUNT.name, event_id)
        request = NotificationEventsCountRequest(
            fromEventId=event_id - 1, toEventId=event_id, dbName=db, tableNames=list(tables) or None
        )
        return self._invoke(_COUNT, request).eventsCount > 0
