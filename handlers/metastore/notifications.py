"""The notification log and the write events of a transaction."""

from __future__ import annotations

from typing import Final

from handlers.metastore.calls import Call
from handlers.metastore.hive_version import V4_0
from handlers.metastore.session import Session
from handlers.structs.exceptions import MetaException
from handlers.structs.notifications import (
    CurrentNotificationEventId,
    GetAllWriteEventInfoRequest,
    NotificationEvent,
    NotificationEventRequest,
    NotificationEventResponse,
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
    since=V4_0,
)


class NotificationCalls(Session):
    """Calls that read the notification log."""

    def current_event_id(self) -> int:
        """Return the id of the newest event; 0 if there never was one."""
        return self._invoke(_CURRENT).eventId

    def next_events(self, after: int, limit: int) -> list[NotificationEvent]:
        """Return at most ``limit`` events with ids above ``after``, in ascending order.

        The events are not filtered: only then does a missing id prove that events were purged (reference:
        hive-replication.md §1.5).
        """
        request = NotificationEventRequest(lastEvent=after, maxEvents=limit)
        return self._invoke(_NEXT, request).events or []

    def write_events(self, txn_id: int) -> list[WriteEventInfo]:
        """Return what a transaction wrote, by table and partition; empty if it wrote nothing or its events are purged.

        Raises Unsupported before Hive 4.0, where no call returns write events.
        """
        return self._invoke(_WRITE_EVENTS, GetAllWriteEventInfoRequest(txnId=txn_id))
