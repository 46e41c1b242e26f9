"""The notification log, and telling the metastore what was written (which only writers of data do)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hmsclient.genthrift.hive_metastore import ttypes as hive2

from handlers.metastore.calls import Call, PlainCall
from handlers.metastore.hive_version import V3_1, V4_0
from handlers.metastore.session import Session
from handlers.structs.exceptions import MetaException
from handlers.structs.notifications import (
    CurrentNotificationEventId,
    FireEventRequest,
    FireEventRequestData,
    FireEventResponse,
    GetAllWriteEventInfoRequest,
    InsertEventRequestData,
    NotificationEvent,
    NotificationEventRequest,
    NotificationEventResponse,
    WriteEventInfo,
    WriteNotificationLogRequest,
    WriteNotificationLogResponse,
)


if TYPE_CHECKING:
    from collections.abc import Sequence


_CURRENT: Final = Call("get_current_notificationEventId", {}, CurrentNotificationEventId, (), changes=False)
_NEXT: Final = Call(
    "get_next_notification", {"rqst": NotificationEventRequest}, NotificationEventResponse, (), changes=False
)
_WRITES: Final = Call(
    "get_all_write_event_info",
    {"request": GetAllWriteEventInfoRequest},
    list[WriteEventInfo],
    (MetaException,),
    changes=False,
    since=V4_0,
)
_ADD_WRITE: Final = Call(
    "add_write_notification_log",
    {"rqst": WriteNotificationLogRequest},
    WriteNotificationLogResponse,
    (),
    changes=True,
    since=V4_0,
)
_FIRE: Final = Call("fire_listener_event", {"rqst": FireEventRequest}, FireEventResponse, (), changes=True)
_FIRE_IN_HIVE_2: Final = PlainCall("fire_listener_event", object, changes=True)


class NotificationCalls(Session):
    """What follows the log."""

    def current_event_id(self) -> int:
        """Return the id of the newest event; 0 where there never was one."""
        return self._invoke(_CURRENT).eventId

    def next_events(self, after: int, limit: int) -> list[NotificationEvent]:
        """Return at most ``limit`` events with ids above ``after``, ascending.

        Unfiltered, since only then a missing id proves that events were purged (reference: hive-replication.md §1.5).
        """
        request = NotificationEventRequest(lastEvent=after, maxEvents=limit)
        return self._invoke(_NEXT, request).events or []

    def write_events(self, txn_id: int) -> list[WriteEventInfo]:
        """Return what a transaction wrote, by table and partition; empty where it wrote nothing or is purged.

        Since Hive 4.0; before, no call tells it: Unsupported.
        """
        return self._invoke(_WRITES, GetAllWriteEventInfoRequest(txnId=txn_id))

    def add_write_notification(
        self,
        txn_id: int,
        write_id: int,
        db: str,
        table: str,
        written: InsertEventRequestData,
        *,
        partition_values: Sequence[str] | None = None,
    ) -> None:
        """Tell which files a transaction has written, before it commits (since Hive 4.0)."""
        request = WriteNotificationLogRequest(
            txnId=txn_id,
            writeId=write_id,
            db=db,
            table=table,
            fileInfo=written,
            partitionVals=None if partition_values is None else list(partition_values),
        )
        self._invoke(_ADD_WRITE, request)

    def fire_insert_event(
        self,
        db: str,
        table: str,
        written: InsertEventRequestData,
        *,
        partition_values: Sequence[str] | None = None,
    ) -> list[int]:
        """Tell of an insert into a plain table, so that an INSERT event is logged; return its ids (4.x, else empty)."""
        values = None if partition_values is None else list(partition_values)
        if self.hive_version < V3_1:
            self._invoke(_FIRE_IN_HIVE_2, _hive2_insert(db, table, written, values))
            return []
        request = FireEventRequest(
            successful=True,
            data=FireEventRequestData(insertData=written),
            dbName=db,
            tableName=table,
            partitionVals=values,
        )
        return self._invoke(_FIRE, request).eventIds or []


def _hive2_insert(db: str, table: str, written: InsertEventRequestData, values: list[str] | None) -> Any:
    """Build the request with the field numbers of Hive 2, where ``filesAdded`` came first."""
    data = hive2.InsertEventRequestData(
        filesAdded=written.filesAdded, filesAddedChecksum=written.filesAddedChecksum
    )
    return hive2.FireEventRequest(
        successful=True,
        data=hive2.FireEventRequestData(insertData=data),
        dbName=db,
        tableName=table,
        partitionVals=values,
    )
