"""Events that create, drop or rename tables and databases, and the names that an event refers to.

Such events cannot be repeated freely: a repeated rename would rename another table if a later event created
one under the old name, and a repeated alteration finds no table if a later event renamed it. Replay therefore
records its position between each of them (``needs_checkpoint``) and other events of the same names, so that a
restart repeats at most one of them. It also records its position between two other alterations of the same
object (``find_alterations``), so that a restart does not show an older state of the object.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace

from handlers.events import (
    CATALOGS,
    DatabaseAltered,
    DatabaseCreated,
    DatabaseDropped,
    Event,
    FilesWritten,
    FunctionCreated,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    TableAltered,
    TableCreated,
    TableDropped,
    TxnAborted,
    TxnCommitted,
)
from handlers.replication.policy.policy import Policy
from state.errors import BadInput
from state.transactions.write_id_mapping import WriteIdMapping


Alteration = tuple[str | None, str]
"""A table and its altered part: itself, one partition, or the set of its partitions."""


@dataclass(frozen=True, slots=True)
class Rename:
    """The names of a renamed table as (database, table); the databases differ if moved."""

    before: tuple[str | None, str]
    after: tuple[str | None, str]


def is_foreign(event: Event) -> bool:
    """Whether the event belongs to another catalog;
    the end of a transaction, which may span catalogs, never does.
    """
    return event.catalog not in CATALOGS and not isinstance(event, TxnCommitted | TxnAborted)


def may_concern(event: Event, policy: Policy) -> bool:
    """Whether an event can concern the policy's database, decided without decoding its objects.

    The event of a table moved to another database has the new database; the old one is only in the table's
    object. An event of another catalog concerns other tables, even if database and table have the same names.
    """
    if is_foreign(event):
        return False
    if event.db is None or policy.covers_db(event.db):
        return True
    return isinstance(event, TableAltered) and f'"{policy.source_db}"' in event.before.text


def find_rename(event: Event) -> Rename | None:
    """Return the rename in an ALTER_TABLE; None if it renames nothing or is undecodable."""
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

    If the table's object is undecodable, returns the event's own name.
    """
    if not isinstance(event, TableAltered):
        return event.table
    try:
        return (event.before.value.tableName or "").lower()
    except BadInput:
        return event.table


def follow_table(write: FilesWritten, write_ids: WriteIdMapping) -> FilesWritten | None:
    """Return a write event under the table's current name; None if the table was dropped since.

    The source names write events as at the time of the write, and the table may have been renamed before the
    commit. Returns the event unchanged if its write id is unknown.
    """
    current = write_ids.find_written_table(write.txn_id, f"{write.db}.{write.table}", write.write_id)
    if current is None:
        return write
    db, _, table = current.partition(".")
    return replace(write, db=db, table=table) if table else None


def needs_checkpoint(event: Event) -> bool:
    """Whether the position must be recorded between the event
    and other events of the same names (``record_points``).
    """
    if isinstance(event, TableCreated | TableDropped | DatabaseCreated | DatabaseDropped | FunctionCreated):
        return True
    if isinstance(event, PartitionsAltered):
        return _renames_partition(event)
    return find_rename(event) is not None


def find_names(event: Event) -> frozenset[str]:
    """Return the names of the tables that the event concerns,
    before and after it; empty if it has no table.
    """
    move = find_rename(event)
    names = {event.table} if move is None else {move.before[1], move.after[1]}
    return frozenset(name for name in names if name)


def depends_on(event: Event, touched: AbstractSet[str]) -> bool:
    """Whether an event that needs a checkpoint must not be repeated together with earlier events, which
    concern the tables ``touched``.

    If the earlier events were repeated, they would concern the table that has the name after this event.
    """
    if isinstance(event, DatabaseCreated | DatabaseDropped):
        return bool(touched)
    return not touched.isdisjoint(find_names(event))


_ADDED, _DROPPED = "partitions added", "partitions dropped"
_OVERWRITTEN, _INSERTED = "rows overwritten", "rows inserted"
_UNDOES = {_ADDED: _DROPPED, _DROPPED: _ADDED, _INSERTED: _OVERWRITTEN}


def are_undone(altered: AbstractSet[Alteration], earlier: AbstractSet[Alteration]) -> bool:
    """Whether repeating the ``earlier`` alterations would undo the current ones in ``altered``."""
    return any((table, _UNDOES.get(what, what)) in earlier for table, what in altered)


def find_alterations(event: Event) -> frozenset[Alteration]:
    """Return the event's alterations whose repetition would undo a later alteration; empty if there are none.

    If two such events of one table or partition were repeated after a crash, readers would see the state
    after the first one again. Therefore replay records the position between them.
    """
    match event:
        case TableAltered() | DatabaseAltered():
            return frozenset({(event.table, "")})
        case PartitionsAdded():
            return frozenset({(event.table, _ADDED)})
        case PartitionsDropped():
            return frozenset({(event.table, _DROPPED)})
        case PartitionsAltered():
            with suppress(BadInput):
                return frozenset((event.table, repr(item.value.values)) for item in event.after)
        case Inserted():
            return frozenset({(event.table, _OVERWRITTEN if event.replace else _INSERTED)})
    return frozenset()


def _renames_partition(event: PartitionsAltered) -> bool:
    if event.before is None or event.truncate or not event.after:
        return False
    try:
        return event.before.value.values != event.after[0].value.values
    except BadInput:
        return False
