"""Whether a table or partition of the source is still the one that an event is about.

Replay and the relay read from the source later than the event. The table may have been renamed by then, and
another one may have its name, its directory and its write ids: tables are often built next to the one in use,
and exchanged with it by two renames. The same happens to two partitions that one transaction wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from handlers.decoding.header import EventHeader
from handlers.decoding.messages import DEFAULT_LIMITS, unpack
from handlers.decoding.notifications import build_event
from handlers.events import Event, PartitionsAltered
from handlers.replication.target.objects import format_partition_name, partition_key_names
from handlers.structs import tjson
from handlers.structs.notifications import NotificationEvent
from handlers.structs.objects import Partition, Table
from state.errors import BadInput, NotFound


_RENAME: Final = "ALTER_PARTITION"
"""The kind of event that a rename of a partition logs. Changes of several partitions at once are
ALTER_PARTITIONS.
"""
_EVENTS_MAX: Final = 1_000
"""Maximum number of events to search; if there are more, every changed partition counts as renamed."""


def is_same_table(event: Table, present: Table) -> bool:
    """Whether both are states of one table: neither its id nor the time of its creation ever changes."""
    if event.id is not None and present.id is not None and event.id != present.id:
        return False
    return event.createTime == present.createTime


def is_written_table(owner_text: str | None, present: Table) -> bool:
    """Whether the encoded table of a write event is this table; True if the event has no table, or an
    unreadable one.
    """
    if owner_text is None:
        return True
    try:
        return is_same_table(tjson.decode(Table, owner_text), present)
    except BadInput:
        return True


class SameTableSource(Protocol):
    """The calls of the source's metastore that this module needs."""

    def get_table(self, db: str, name: str) -> Table:
        """Return a table as stored; raise NotFound."""

    def get_partitions(
        self, db: str, table: str, names: Sequence[str], *, with_columns: bool = True
    ) -> list[Partition]:
        """Return those of the named partitions that exist."""

    def table_events(
        self, after: int, db: str, table: str, kinds: Sequence[str], limit: int
    ) -> list[NotificationEvent]:
        """Return at most ``limit`` events of a table, of these kinds and with ids above ``after``."""


@dataclass(frozen=True, slots=True)
class LoggedWrite:
    """Writes of a transaction into one table: ``event_id`` is its commit, ``owner_text`` the encoded table of
    a write event.
    """

    db: str
    table: str
    write_id: int
    event_id: int
    owner_text: str | None


def select_same_partitions(write: LoggedWrite, names: Iterable[str], source: SameTableSource) -> set[str]:
    """Return those of the named partitions that still have their names, in a table that still has its own
    name.

    A partition whose last write id is that of the transaction was not renamed since. For all others, it
    searches the log for renames.
    """
    candidates = set(names)
    try:
        table = source.get_table(write.db, write.table)
        if not is_written_table(write.owner_text, table):
            return set()
        partitions = source.get_partitions(write.db, write.table, sorted(candidates), with_columns=False)
    except NotFound:
        return set()
    keys = partition_key_names(table)
    unchanged = {
        format_partition_name(keys, list(each.values or []))
        for each in partitions
        if each.writeId == write.write_id
    }
    if candidates <= unchanged:
        return candidates
    renamed = _find_renamed_partitions(write, source)
    return candidates & unchanged if renamed is None else candidates - renamed


def _find_renamed_partitions(write: LoggedWrite, source: SameTableSource) -> set[str] | None:
    """Return the old and new names of the partitions renamed since the commit; None if there are too many
    events.
    """
    events = source.table_events(write.event_id, write.db, write.table, [_RENAME], _EVENTS_MAX)
    if len(events) >= _EVENTS_MAX:
        return None
    renamed: set[str] = set()
    for each in events:
        header = EventHeader(
            each.eventId, 0, 1, time_s=each.eventTime, kind=each.eventType, db=write.db, table=write.table
        )
        try:
            event = build_event(header, unpack(each.message, each.messageFormat), DEFAULT_LIMITS)
            renamed |= _names_of_rename(event)
        except BadInput:
            return None
    return renamed


def _names_of_rename(event: Event) -> set[str]:
    if not isinstance(event, PartitionsAltered) or event.before is None or event.owner is None:
        return set()
    keys = partition_key_names(event.owner.value)
    values = [list(each.value.values or []) for each in (event.before, *event.after)]
    names = {format_partition_name(keys, each) for each in values}
    return names if len(names) > 1 else set()
