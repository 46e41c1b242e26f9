"""Events that create, drop or rename tables and databases, and the names that an event refers to.

Such events cannot be repeated freely: a repeated rename would rename another table if a later event created one under the old
name, and a repeated alteration finds no table if a later event renamed it. Replay therefore records its position before and
after each of them (``needs_checkpoint``), so that a restart repeats at most this one event.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from handlers.events import (
    CATALOGS,
    DatabaseCreated,
    DatabaseDropped,
    PartitionsAltered,
    TableAltered,
    TableCreated,
    TableDropped,
    TxnAborted,
    TxnCommitted,
)
from state.errors import BadInput


if TYPE_CHECKING:
    from handlers.events import Event, FilesWritten
    from handlers.replication.policy import Policy
    from state.transactions.write_id_mapping import WriteIdMapping


@dataclass(frozen=True, slots=True)
class Rename:
    """The names of a renamed table as (database, table); the databases differ if it was moved."""

    before: tuple[str | None, str]
    after: tuple[str | None, str]


def is_foreign(event: Event) -> bool:
    """Whether the event belongs to another catalog; the end of a transaction, which may span catalogs, never does."""
    return event.catalog not in CATALOGS and not isinstance(event, TxnCommitted | TxnAborted)


def may_concern(event: Event, policy: Policy) -> bool:
    """Whether an event can concern the policy's database, decided without decoding its objects.

    The event of a table that is moved to another database has the new database; the old one is only in the table's object.
    An event of another catalog concerns other tables, even if database and table have the same names.
    """
    if is_foreign(event):
        return False
    if event.db is None or policy.covers_db(event.db):
        return True
    return isinstance(event, TableAltered) and f'"{policy.source_db}"' in event.before.text


def find_rename(event: Event) -> Rename | None:
    """Return the rename in an ALTER_TABLE; None if it renames nothing or cannot be decoded."""
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
    """Return the name under which the target knows the event's table; the event of a rename has the new name.

    If the table's object cannot be decoded, the event's own name is returned.
    """
    if not isinstance(event, TableAltered):
        return event.table
    try:
        return (event.before.value.tableName or "").lower()
    except BadInput:
        return event.table


def follow_table(write: FilesWritten, write_ids: WriteIdMapping) -> FilesWritten | None:
    """Return a write event under the table's current name; None if the table was dropped since.

    The source names write events as at the time of the write, and the table may have been renamed before the commit. The event
    is returned unchanged if its write id is not known.
    """
    current = write_ids.find_written_table(write.txn_id, f"{write.db}.{write.table}", write.write_id)
    if current is None:
        return write
    db, _, table = current.partition(".")
    return replace(write, db=db, table=table) if table else None


def needs_checkpoint(event: Event) -> bool:
    """Whether the position must be recorded right before and right after the event."""
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
