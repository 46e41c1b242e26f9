"""Collects facts about open transactions from the events of a notification log (``OpenCandidates``).

Only sources that do not report write events need this. Their events about partitions do not name the
transaction; the paths in INSERT events of full-ACID tables do (reference: hive-3.1-source.md §1). An event
costs little unless it is about a table that an open transaction writes into.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from handlers.decoding.header import EventHeader
from handlers.decoding.messages import DEFAULT_LIMITS, unpack
from handlers.decoding.notifications import build_event
from handlers.events import (
    CATALOGS,
    Event,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    SourceFile,
    TableAltered,
    TableCreated,
    TxnAborted,
    TxnsOpened,
    Undecodable,
    WriteIdsAllocated,
)
from handlers.files.paths import parse_location, to_target_subdir
from handlers.replication.target.objects import format_partition_name, partition_key_names
from handlers.structs.notifications import NotificationEvent
from handlers.structs.objects import Partition, Table
from state.errors import BadInput, MalformedEvent
from state.transactions.acid_directories import AcidDirectory
from state.transactions.open_candidates import OpenCandidates


_OF_TABLES: Final = frozenset(
    {"ADD_PARTITION", "ALTER_PARTITION", "ALTER_PARTITIONS", "INSERT", "ALTER_TABLE", "CREATE_TABLE"}
)
_OF_TXNS: Final = frozenset({"ALLOC_WRITE_ID_EVENT", "ABORT_TXN"})
_OPENING: Final = "OPEN_TXN"


def observe(notification: NotificationEvent, candidates: OpenCandidates, databases: Container[str]) -> None:
    """Record the facts in an event; facts about tables only for ``databases`` (in lower case).

    If an event about a table is unusable, the table's open writes count as incomplete. This does not handle
    commits; call ``OpenCandidates.end`` for a commit.
    """
    try:
        event = _decode(notification, candidates, databases)
        if isinstance(event, Undecodable):
            raise event.error
        if event is not None:
            _record(event, candidates)
    except BadInput:
        if notification.eventType in _OF_TABLES:
            candidates.miss(f"{notification.dbName}.{notification.tableName}".lower())


def _record(event: Event, candidates: OpenCandidates) -> None:
    name = f"{event.db}.{event.table}"
    match event:
        case TxnsOpened():
            candidates.open(event.first)
        case WriteIdsAllocated():
            for txn_id, write_id in event.pairs:
                candidates.allocate(txn_id, name, write_id, event_id=event.event_id, time_s=event.time_s)
        case TxnAborted():
            candidates.end(event.txn_id)
        case Inserted() | PartitionsAdded() | PartitionsAltered():
            if event.owner is None:
                raise MalformedEvent("the event has no table")
            _touch(event, event.owner.value, candidates)
            candidates.see_table(name, event.owner.text)
        case TableAltered() | TableCreated():
            candidates.see_table(name, event.after.text)


def _decode(
    notification: NotificationEvent, candidates: OpenCandidates, databases: Container[str]
) -> Event | None:
    """Return the decoded event if its facts are needed; raise BadInput."""
    kind, db, table = notification.eventType, notification.dbName, notification.tableName
    if kind in _OF_TABLES:
        if db is None or db.lower() not in databases or notification.catName not in CATALOGS:
            return None
        if not candidates.is_open(f"{db}.{table}".lower()):
            return None
    elif kind not in _OF_TXNS and not (kind == _OPENING and candidates.waits_for_opening):
        return None
    # For events of transactions, Hive 3.1 has the names only in the message (reference: hive-3.1-source.md
    # §1)
    has_names = kind in _OF_TABLES
    header = EventHeader(
        notification.eventId,
        0,
        1,
        time_s=notification.eventTime,
        kind=kind,
        db=db.lower() if db is not None and has_names else None,
        table=table.lower() if table is not None and has_names else None,
    )
    return build_event(header, unpack(notification.message, notification.messageFormat), DEFAULT_LIMITS)


def _touch(
    event: Inserted | PartitionsAdded | PartitionsAltered, owner: Table, candidates: OpenCandidates
) -> None:
    name = f"{event.db}.{event.table}"
    keys = partition_key_names(owner)
    if not isinstance(event, Inserted):
        added = isinstance(event, PartitionsAdded)
        for item in event.partitions if isinstance(event, PartitionsAdded) else event.after:
            _touch_partition(name, keys, item.value, candidates, is_added=added)
        return
    if event.partition is None:
        partition, location = "", owner.sd.location
        if location is not None:
            candidates.touch(name, "", location, created_s=None)
    else:
        partition = _touch_partition(name, keys, event.partition.value, candidates)
        location = event.partition.value.sd.location
    for write_id, entries in _group_entries(event.files, location).items():
        candidates.name_files(name, write_id, partition, entries)


def _touch_partition(
    table: str, keys: list[str], partition: Partition, candidates: OpenCandidates, *, is_added: bool = False
) -> str:
    """Record that a partition was touched, and return its name."""
    name = format_partition_name(keys, list(partition.values or []))
    if partition.sd.location is not None:
        candidates.touch(
            table, name, partition.sd.location, created_s=partition.createTime, is_added=is_added
        )
    return name


def _group_entries(files: tuple[SourceFile, ...], location: str | None) -> dict[int, dict[str, str]]:
    """Return the file entries by the write id in their paths; adds the subdirectory, which Hive omits."""
    found: dict[int, dict[str, str]] = {}
    root = None if location is None else parse_location(location)
    for file in files if root is not None else ():
        assert root is not None
        where = parse_location(file.uri)
        subdir = where.parent.path.removeprefix(root.path + "/")
        directory = AcidDirectory.parse(subdir.partition("/")[0])
        if directory is not None and directory.first == directory.last:
            entry = f"{file.uri}#{file.checksum or ''}#{file.cm_root or ''}#{to_target_subdir(subdir)}"
            found.setdefault(directory.first, {})[str(where)] = entry
    return found
