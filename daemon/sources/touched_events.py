"""Collects facts about open transactions from the events of a notification log (``TouchedPartitions``).

An event costs little unless it is about partitions of a table that an open transaction writes into: only then
are its objects decoded.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from handlers.decoding.header import EventHeader
from handlers.decoding.messages import DEFAULT_LIMITS, unpack
from handlers.decoding.notifications import build_event
from handlers.events import CATALOGS, Event, PartitionsAdded, PartitionsAltered, TxnAborted, WriteIdsAllocated
from handlers.replication.target.objects import format_partition_name, partition_key_names
from handlers.structs.notifications import NotificationEvent
from state.errors import BadInput
from state.transactions.touched_partitions import TouchedPartitions


_OF_PARTITIONS: Final = frozenset({"ADD_PARTITION", "ALTER_PARTITION", "ALTER_PARTITIONS"})
_ALLOCATION: Final = "ALLOC_WRITE_ID_EVENT"
_ABORT: Final = "ABORT_TXN"


def observe(notification: NotificationEvent, touched: TouchedPartitions, databases: Container[str]) -> None:
    """Record the facts in an event of one of ``databases`` (in lower case); ignore an unusable event.

    This does not handle commits; call ``TouchedPartitions.end`` for a commit.
    """
    try:
        event = _decode(notification, touched, databases)
        if isinstance(event, WriteIdsAllocated):
            for txn_id, write_id in event.pairs:
                touched.allocate(txn_id, f"{event.db}.{event.table}", write_id, event.event_id)
        elif isinstance(event, TxnAborted):
            touched.end(event.txn_id)
        elif isinstance(event, PartitionsAdded | PartitionsAltered):
            _touch(event, touched)
    except BadInput:
        return


def _decode(
    notification: NotificationEvent, touched: TouchedPartitions, databases: Container[str]
) -> Event | None:
    """Return the decoded event if its facts are needed; raise BadInput."""
    kind, db, table = notification.eventType, notification.dbName, notification.tableName
    if kind != _ABORT:
        if kind != _ALLOCATION and kind not in _OF_PARTITIONS:
            return None
        if db is None or db.lower() not in databases or notification.catName not in CATALOGS:
            return None
        if kind in _OF_PARTITIONS and not touched.is_open(f"{db}.{table}".lower()):
            return None
    header = EventHeader(
        notification.eventId,
        0,
        1,
        time_s=notification.eventTime,
        kind=kind,
        db=None if db is None else db.lower(),
        # For events of transactions, Hive 3.1 has the name only in the message (reference: hive-3.1-source.md
        # §1)
        table=None if table is None or table.isspace() else table.lower(),
    )
    return build_event(header, unpack(notification.message, notification.messageFormat), DEFAULT_LIMITS)


def _touch(event: PartitionsAdded | PartitionsAltered, touched: TouchedPartitions) -> None:
    if event.owner is None:
        return
    keys = partition_key_names(event.owner.value)
    for item in event.partitions if isinstance(event, PartitionsAdded) else event.after:
        partition = item.value
        location = partition.sd.location
        if partition.writeId and location is not None:
            name = format_partition_name(keys, list(partition.values or []))
            touched.touch(f"{event.db}.{event.table}", partition.writeId, name, location)
