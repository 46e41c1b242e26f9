"""Changes of a table at the source during its load: decides which of them make the load start again.

A load contains a table as of an event, but reads it some time later. Replay can apply most events in between
on top of it, because their effects are idempotent. There are exceptions: if the table was dropped and created
again, or its rows were replaced, replaying the drop would remove rows that no later event restores.
"""

from __future__ import annotations

from typing import Final

from handlers.decoding.messages import DEFAULT_LIMITS
from handlers.decoding.notifications import decode_notification
from handlers.events import (
    DatabaseDropped,
    Event,
    Inserted,
    PartitionsAltered,
    PartitionsDropped,
    TableAltered,
    TableCreated,
    TableDropped,
    Undecodable,
    WriteIdsAllocated,
)
from handlers.metastore.client import Metastore
from handlers.replication.policy.policy import Policy
from handlers.replication.policy.renames import find_rename, is_foreign, may_concern
from handlers.replication.policy.replicability import is_view
from handlers.replication.target.objects import is_external, is_transactional
from handlers.structs.objects import Table
from state.errors import BadInput, GapDetected


PAGE: Final = 1_000
_IRRELEVANT: Final = frozenset({"OPEN_TXN", "COMMIT_TXN", "ABORT_TXN", "COMMIT_COMPACTION_EVENT"})


class SourceChanges:
    """The events of one table since the event of its load."""

    def __init__(self, source: Metastore, policy: Policy, table: str, event_id: int) -> None:
        self._source = source
        self._policy = policy
        self._table = table
        self._read_up_to = event_id

    def read_new(self) -> list[Event]:
        """Return the events about the table since the last call,
        as far as the log goes now; raise GapDetected.
        """
        events: list[Event] = []
        while page := self._source.next_events(self._read_up_to, PAGE):
            for notification in page:
                if notification.eventId != self._read_up_to + 1:
                    raise GapDetected(
                        "events were purged during the load of a table",
                        table=self._table,
                        after=self._read_up_to,
                        found=notification.eventId,
                    )
                self._read_up_to = notification.eventId
                if notification.eventType not in _IRRELEVANT:
                    event = decode_notification(notification.set_fields(), DEFAULT_LIMITS, None)
                    if concerns_table(event, self._policy, self._table):
                        events.append(event)
            if len(page) < PAGE:
                break
        return events


def concerns_table(event: Event, policy: Policy, table: str) -> bool:
    """Whether the event may have changed the table; a rename concerns both names."""
    if is_foreign(event) or not may_concern(event, policy):
        return False
    if event.table == table or isinstance(event, DatabaseDropped):
        return True
    if isinstance(event, Undecodable):
        return event.table is None
    move = find_rename(event)
    return move is not None and (policy.source_db, table) in {move.before, move.after}


def find_lowest_allocation(events: list[Event]) -> int | None:
    """Return the lowest write id that the events allocate; None if they allocate none."""
    ids = [
        write_id for event in events if isinstance(event, WriteIdsAllocated) for _, write_id in event.pairs
    ]
    return min(ids, default=None)


def find_disruption(events: list[Event]) -> str | None:
    """Return the first event that replay cannot apply on top of the later snapshot, as text; None if there is
    none.
    """
    return next(
        (f"event {e.event_id}, {reason}" for e in events if (reason := _disrupts(e)) is not None), None
    )


def find_replacement(events: list[Event]) -> str | None:
    """Return the first event after which the name may belong to another table, as text;
    None if there is none.

    The files of a new table under the name may have the same paths as the listed files. Replaced rows of a
    plain table do not matter: replaying the event on top removes them.
    """
    for event in events:
        created = isinstance(event, TableCreated | TableDropped | DatabaseDropped)
        if created or find_rename(event) is not None:
            return f"event {event.event_id}, {event.kind}"
    return None


def _disrupts(event: Event) -> str | None:
    match event:
        case TableCreated() | TableDropped() | DatabaseDropped() | PartitionsDropped() | Undecodable():
            return event.kind
        case Inserted():
            return None if event.replace is False else "INSERT OVERWRITE"
        case TableAltered():
            return _disrupts_table(event)
        case PartitionsAltered():
            return _disrupts_partition(event)
        case _:
            return None


def _disrupts_table(event: TableAltered) -> str | None:
    if event.truncate:
        return "TRUNCATE"
    if find_rename(event) is not None:
        return "RENAME"
    try:
        same = _kind(event.before.value) == _kind(event.after.value)
    except BadInput:
        same = False
    return None if same else "change of the table's kind or location"


def _kind(table: Table) -> tuple[object, ...]:
    return (is_transactional(table), is_external(table), is_view(table), table.sd.location)


def _disrupts_partition(event: PartitionsAltered) -> str | None:
    if event.truncate:
        return "TRUNCATE"
    if event.before is None:
        return None
    try:
        before, after = event.before.value, event.after[0].value
    except BadInput:
        return event.kind
    same = (before.values, before.sd.location) == (after.values, after.sd.location)
    return None if same else "rename or move of a partition"
