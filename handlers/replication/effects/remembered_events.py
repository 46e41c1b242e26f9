"""Events that the target has already, because an earlier run applied them: only the state still needs them.

The state file is lost or is older than the target's position, or a catch-up begins again. Afterwards the
write-id mapping and the loads are as after applying the event.
"""

from __future__ import annotations

from handlers.events import (
    DatabaseDropped,
    Event,
    PartitionsAdded,
    PartitionsAltered,
    TableAltered,
    TableDropped,
    TxnAborted,
    TxnCommitted,
    WriteIdsAllocated,
)
from handlers.replication.context import Context
from handlers.replication.effects import loaded_tables, partitions
from handlers.replication.effects.unreplicated import record_kind
from handlers.replication.policy.metadata_only import select_metadata
from handlers.replication.policy.renames import find_rename, is_foreign, may_concern


def remember(event: Event, context: Context) -> None:
    """Record an event that the target already has."""
    if is_foreign(event) or record_kind(event, context):
        return
    selected = select_metadata(event, context.policy)
    if selected is None:
        return
    event = selected
    if isinstance(event, TxnCommitted):
        context.tables.write_ids.commit(event.txn_id)
    elif isinstance(event, TxnAborted):
        context.tables.write_ids.abort(event.txn_id)
    elif isinstance(event, DatabaseDropped) and context.policy.covers_db(event.db):
        context.tables.write_ids.drop_database(context.policy.source_db)
        context.tables.loads.remove_all()
    elif isinstance(event, TableAltered):
        _remember_rename(event, context)
    elif event.table is not None and context.in_scope(event.db, event.table):
        _remember_table(event, event.table, context)
    elif isinstance(event, TableDropped) and context.policy.covers(event.db, event.table):
        context.tables.loads.remove(event.table or "")


def _remember_rename(event: TableAltered, context: Context) -> None:
    """Forget a table that left the policy; one that entered it waits for its load."""
    move = find_rename(event) if may_concern(event, context.policy) else None
    if move is None:
        return
    loaded_tables.remember_rename(event, move, context)
    if not context.policy.covers(*move.before):
        return
    old, new = (f"{db}.{table}" for db, table in (move.before, move.after))
    if context.policy.covers(*move.after):
        context.tables.write_ids.rename_table(old, new)
    else:
        context.tables.write_ids.drop_table(old)


def _remember_table(event: Event, table: str, context: Context) -> None:
    if loaded_tables.is_loaded(event, table, context):
        return
    event = loaded_tables.select_new_write_ids(event, table, context)
    if isinstance(event, WriteIdsAllocated):
        for txn_id, write_id in event.pairs:
            context.tables.write_ids.allocate(txn_id, f"{event.db}.{table}", write_id, event.event_id)
    elif isinstance(event, TableDropped):
        context.tables.write_ids.drop_table(f"{event.db}.{table}")
        context.tables.loads.remove(table)
    elif isinstance(event, PartitionsAdded | PartitionsAltered):
        partitions.remember_touched(event, context)
