"""What an event does to names: a table or a database comes, goes, or is called something else.

Such events cannot be repeated freely. A rename finds another table under the old name when a later event has created one; an
alteration finds no table when a later event has renamed it. So replay records its position before and after each of them
(``needs_checkpoint``), and after a crash repeats at most that one event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.events import (
    DatabaseCreated,
    DatabaseDropped,
    PartitionsAltered,
    TableAltered,
    TableCreated,
    TableDropped,
)
from state.errors import BadInput


if TYPE_CHECKING:
    from handlers.events import Event
    from handlers.replication.policy import Policy


@dataclass(frozen=True, slots=True)
class Rename:
    """A table's names, as (database, table); the databases differ where it was moved."""

    before: tuple[str | None, str]
    after: tuple[str | None, str]


def may_concern(event: Event, policy: Policy) -> bool:
    """Tell, without reading its objects, whether an event can be about the policy's database.

    A table that is moved to another database stands under the new one; its old one is then only in the table's object.
    """
    if event.db is None or policy.covers_db(event.db):
        return True
    return isinstance(event, TableAltered) and f'"{policy.source_db}"' in event.before.text


def find_rename(event: Event) -> Rename | None:
    """Return what an ALTER_TABLE renames; None where it renames nothing, or cannot be read."""
    if not isinstance(event, TableAltered) or event.truncate:
        return None
    try:
        before, after = event.before.value, event.after.value
    except BadInput:
        return None
    old = ((before.dbName or event.db or "").lower(), (before.tableName or "").lower())
    new = ((after.dbName or event.db or "").lower(), (after.tableName or "").lower())
    return None if old == new else Rename(old, new)


def name_on_target(event: Event) -> str | None:
    """Return the name by which the target knows the event's table: a rename stands under the new one.

    Where the object that tells it cannot be read, the event's own name is all there is.
    """
    if not isinstance(event, TableAltered):
        return event.table
    try:
        return (event.before.value.tableName or "").lower()
    except BadInput:
        return event.table


def needs_checkpoint(event: Event) -> bool:
    """Whether the position has to be recorded right before and right after the event."""
    if isinstance(event, TableCreated | TableDropped | DatabaseCreated | DatabaseDropped):
        return True
    if isinstance(event, PartitionsAltered):
        return _renames_partition(event)
    return find_rename(event) is not None


def _renames_partition(event: PartitionsAltered) -> bool:
    if event.before is None or event.truncate or not event.after:
        return False
    try:
        return event.before.value.values != event.after[0].value.values
    except BadInput:
        return False
