"""Requests and responses about the notification log and write events.

``InsertEventRequestData`` has the field numbers of Hive 3 and later. In 2.3 ``filesAdded`` is field 1, so a
2.3 server gets ``hmsclient``'s own struct.
"""
# ruff: noqa: N815 - field names are those of Hive's interface

from __future__ import annotations

from typing import Annotated

from handlers.structs.struct import Struct, i32, i64, resolve


class NotificationEvent(Struct):
    """One row of the notification log."""

    eventId: Annotated[i64, 1]
    eventTime: Annotated[i32, 2]
    eventType: Annotated[str, 3]
    dbName: Annotated[str | None, 4] = None
    tableName: Annotated[str | None, 5] = None
    message: Annotated[str, 6]
    messageFormat: Annotated[str | None, 7] = None
    catName: Annotated[str | None, 8] = None


class NotificationEventRequest(Struct):
    """Requests events after ``lastEvent``. With the server-side filters, gaps could no longer be detected."""

    lastEvent: Annotated[i64, 1]
    maxEvents: Annotated[i32 | None, 2] = None
    eventTypeSkipList: Annotated[list[str] | None, 3] = None
    catName: Annotated[str | None, 4] = None
    dbName: Annotated[str | None, 5] = None
    tableNames: Annotated[list[str] | None, 6] = None
    eventTypeList: Annotated[list[str] | None, 7] = None


class NotificationEventResponse(Struct):
    """Events in ascending order of their ids."""

    events: Annotated[list[NotificationEvent], 1]


class CurrentNotificationEventId(Struct):
    """The newest event id."""

    eventId: Annotated[i64, 1]


class NotificationEventsCountRequest(Struct):
    """Requests the number of a database's events in a range of ids;
    ``fromEventId`` is excluded, ``toEventId`` included.
    """

    fromEventId: Annotated[i64, 1]
    dbName: Annotated[str, 2]
    catName: Annotated[str | None, 3] = None
    toEventId: Annotated[i64 | None, 4] = None
    limit: Annotated[i64 | None, 5] = None
    tableNames: Annotated[list[str] | None, 6] = None


class NotificationEventsCountResponse(Struct):
    """The number of events."""

    eventsCount: Annotated[i64, 1]


class GetAllWriteEventInfoRequest(Struct):
    """Requests the write events of a transaction."""

    txnId: Annotated[i64, 1]
    dbName: Annotated[str | None, 2] = None
    tableName: Annotated[str | None, 3] = None


class WriteEventInfo(Struct):
    """Files that one transaction wrote into one table or partition;
    ``files`` are joined by ``]``, objects are Thrift JSON.
    """

    writeId: Annotated[i64, 1]
    database: Annotated[str, 2]
    table: Annotated[str, 3]
    files: Annotated[str, 4]
    partition: Annotated[str | None, 5] = None
    tableObj: Annotated[str | None, 6] = None
    partitionObj: Annotated[str | None, 7] = None


class InsertEventRequestData(Struct):
    """Files of an insert."""

    replace: Annotated[bool | None, 1] = None
    filesAdded: Annotated[list[str], 2]
    filesAddedChecksum: Annotated[list[str] | None, 3] = None
    subDirectoryList: Annotated[list[str] | None, 4] = None
    partitionVal: Annotated[list[str] | None, 5] = None


class FireEventRequestData(Struct):
    """A union: exactly one field is set."""

    insertData: Annotated[InsertEventRequestData | None, 1] = None
    insertDatas: Annotated[list[InsertEventRequestData] | None, 2] = None
    refreshEvent: Annotated[bool | None, 3] = None


class FireEventRequest(Struct):
    """Reports an insert to the metastore, which then logs an INSERT event."""

    successful: Annotated[bool, 1]
    data: Annotated[FireEventRequestData, 2]
    dbName: Annotated[str | None, 3] = None
    tableName: Annotated[str | None, 4] = None
    partitionVals: Annotated[list[str] | None, 5] = None
    catName: Annotated[str | None, 6] = None
    tblParams: Annotated[dict[str, str] | None, 7] = None
    batchPartitionValsForRefresh: Annotated[list[list[str]] | None, 8] = None


class FireEventResponse(Struct):
    """Ids of the logged events (4.x)."""

    eventIds: Annotated[list[i64] | None, 1] = None


class WriteNotificationLogRequest(Struct):
    """Reports the files that a transaction has written."""

    txnId: Annotated[i64, 1]
    writeId: Annotated[i64, 2]
    db: Annotated[str, 3]
    table: Annotated[str, 4]
    fileInfo: Annotated[InsertEventRequestData, 5]
    partitionVals: Annotated[list[str] | None, 6] = None


class WriteNotificationLogResponse(Struct):
    """Empty."""


resolve()
