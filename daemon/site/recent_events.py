"""The last events of a source as rows of a page, from the memory of the shared reader.

The page reads nothing from Kafka, so it only shows events in the window of the shared reader, and none while
no projection is near the end of the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from daemon.consumer.shared.window import SharedEvent
from handlers.events import (
    CompactionCommitted,
    ConstraintDropped,
    Event,
    EventsLost,
    FilesWritten,
    FunctionDropped,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsDeleted,
    TableAltered,
    TableCreated,
    TxnAborted,
    TxnCommitted,
    TxnsOpened,
    Undecodable,
    WriteIdsAllocated,
)
from state.value_text import count_text


ROWS_MAX: Final = 200
NAMES_SHOWN: Final = 3
TXNS_MAX: Final = 1_000
"""Transactions of one event that a filter compares."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event."""

    event_id: int
    part: str
    """Which part of several, such as ``2/5``; empty if there is one."""
    time_s: int
    kind: str
    table: str
    """``db.table``, or the database; empty if the event concerns none."""
    txns: str
    details: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class RecentEvents:
    """The newest events of a table or transaction, newest first."""

    rows: Sequence[EventRow]
    searched: int
    """Events in memory."""
    first_event_id: int | None
    """The oldest of them."""


def find_recent(events: Sequence[SharedEvent], *, table: str = "", txn_id: int | None = None) -> RecentEvents:
    """Return the events that match the given table (``db.table``) and transaction."""
    rows: list[EventRow] = []
    for shared in reversed(events):
        event = shared.event
        if table and table not in {_table_of(event), event.db}:
            continue
        if txn_id is not None and txn_id not in _txns_of(event):
            continue
        rows.append(_row(shared))
        if len(rows) == ROWS_MAX:
            break
    return RecentEvents(rows, len(events), events[0].event.event_id if events else None)


def _row(shared: SharedEvent) -> EventRow:
    event = shared.event
    txns = _txns_of(event)
    text = "" if not txns else str(txns[0]) if len(txns) == 1 else f"{txns[0]} to {txns[-1]}"
    part = f"{event.part + 1}/{event.parts}" if event.parts > 1 else ""
    return EventRow(
        event.event_id,
        part,
        event.time_s,
        event.kind,
        _table_of(event),
        text,
        _details(event),
        shared.size_bytes,
    )


def _table_of(event: Event) -> str:
    return ".".join(name for name in (event.db, event.table) if name)


def _txns_of(event: Event) -> Sequence[int]:
    match event:
        case FilesWritten() | TxnCommitted() | TxnAborted() | CompactionCommitted():
            return (event.txn_id,)
        case TxnsOpened():
            return range(event.first, event.last + 1)
        case WriteIdsAllocated():
            return [txn_id for txn_id, _ in event.pairs[:TXNS_MAX]]
    return ()


def _details(event: Event) -> str:  # noqa: PLR0911 - one line for each type
    """Return the changes of the event, in a few words."""
    match event:
        case TableAltered() if event.truncate:
            return "truncated"
        case TableCreated() if event.files:
            return count_text(len(event.files), "file")
        case CompactionCommitted():
            return " ".join(filter(None, (event.compaction_type, event.partition_name)))
        case StatisticsDeleted():
            return " ".join(filter(None, (event.column, event.partition_name)))
        case ConstraintDropped() | FunctionDropped():
            return event.name
        case EventsLost():
            return f"events from {event.first_event_id} were lost"
        case Undecodable():
            return str(event.error)
    return _partition_details(event) or _write_details(event)


def _partition_details(event: Event) -> str:
    match event:
        case PartitionsAdded():
            return count_text(len(event.partitions), "partition") + _named(event.files)
        case PartitionsAltered():
            return count_text(len(event.after), "partition") + (", truncated" if event.truncate else "")
        case PartitionsDropped():
            return count_text(len(event.specs), "partition") + _named(map(_name, event.specs))
    return ""


def _write_details(event: Event) -> str:
    match event:
        case FilesWritten():
            where = f" in {event.partition_name}" if event.partition_name else ""
            return f"write id {event.write_id}: {count_text(len(event.files), 'file')}{where}"
        case TxnCommitted() if event.write_ids:
            return f"write ids {_listed(event.write_ids)}"
        case WriteIdsAllocated():
            return f"write ids {_listed([write_id for _, write_id in event.pairs])}"
        case Inserted():
            verb = "overwrites with" if event.replace else "adds"
            return f"{verb} {count_text(len(event.files), 'file')}" + _named([_name(event.spec or {})])
    return ""


def _name(spec: Mapping[str, str]) -> str:
    return "/".join(f"{column}={value}" for column, value in spec.items())


def _listed(values: Sequence[int]) -> str:
    more = len(values) - NAMES_SHOWN
    return ", ".join(map(str, values[:NAMES_SHOWN])) + (f" and {more} more" if more > 0 else "")


def _named(names: Iterable[str]) -> str:
    listed = [name for name in names if name]
    if not listed:
        return ""
    return f": {', '.join(listed[:NAMES_SHOWN])}" + (" and others" if len(listed) > NAMES_SHOWN else "")
