"""Decides which tables of a policy an event that cannot be read may have changed. They are loaded again; all others continue.

Such an event may lack the names of its table and database: the relay finds them only if they still exist. The metastore can count
events by database and table without reading their messages, so the policy searches for its own names, including that of a database
that was dropped since. There are four outcomes:

1. The event is one of another database: it may still have ended a transaction, because those events name no database. The tables of
   the policy's transactions that the source has ended meanwhile are loaded; usually there are none.
2. It concerns one table that the source or the target has: this table is loaded.
3. It concerns the database, or a table that is not known any more: the database's properties are renewed, and all tables are loaded.
4. It cannot be determined, because the log was cleaned or the metastore cannot count (before Hive 4): as 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from handlers.replication.effects.databases import list_tables_to_load, renew_database
from handlers.structs.transactions import TxnState
from state.errors import LimitExceeded, Unsupported


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.events import Undecodable
    from handlers.replication.context import Context


log = structlog.get_logger(__name__)


def find_changed_tables(event: Undecodable, context: Context) -> tuple[str, ...]:
    """Return the tables of the policy that an event without a table may have changed; raise Transient.

    The event's database, if it is known, is that of the policy.
    """
    tables = list_tables_to_load(context)
    found = _find(event, tables, context)
    if found is None:
        renew_database(context)
        found = tables
    log.warning(
        "an event cannot be read and names no table; the tables that it may have changed are loaded",
        policy=context.policy.name,
        event_id=event.event_id,
        tables=found[:10],
        count=len(found),
        problem=str(event.error),
    )
    return found


def _find(event: Undecodable, tables: Sequence[str], context: Context) -> tuple[str, ...] | None:
    """Return the tables of answers 1 and 2; None for answers 3 and 4."""
    source, db = context.source, context.policy.source_db
    try:
        if not _has_log(event.event_id, context):
            return None
        if event.db is None and not source.has_event(event.event_id, db):
            return _list_tables_of_ended_transactions(context)
        table = _find_table(event.event_id, tables, context)
    except Unsupported:
        return None
    return None if table is None else (table,)


def _has_log(event_id: int, context: Context) -> bool:
    """Whether the notification log still has this event; False if its oldest event is too large to be read."""
    try:
        oldest = context.source.next_events(0, 1)
    except LimitExceeded:
        return False
    return bool(oldest) and oldest[0].eventId <= event_id


def _find_table(event_id: int, tables: Sequence[str], context: Context) -> str | None:
    """Return the one of ``tables`` that the event concerns, by halving the list; None if it concerns none of them."""
    source, db = context.source, context.policy.source_db
    if not tables or not source.has_event(event_id, db, tables):
        return None
    while len(tables) > 1:
        half = tables[: len(tables) // 2]
        tables = half if source.has_event(event_id, db, half) else tables[len(half) :]
    return tables[0]


def _list_tables_of_ended_transactions(context: Context) -> tuple[str, ...]:
    """Return the tables of transactions that are open here and have ended at the source."""
    here = set(context.tables.write_ids.open_txns())
    if not here:
        return ()
    listed = context.source.open_txns_info().open_txns
    ended = here - {txn.id for txn in listed if txn.state == TxnState.OPEN}
    known = [txn for txn_id in ended if (txn := context.tables.write_ids.get(txn_id)) is not None]
    return tuple(sorted({name.partition(".")[2] for txn in known for name, _, _ in txn.allocations}))
