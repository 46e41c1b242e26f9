"""The write events of commits that came without them: they are fetched from the source's metastore at replay.

The relay puts the write events in front of each commit and marks it as enriched. Commits of other publishers,
those of a relay whose metastore has no call for write events, and those whose write events the metastore
could not return to it have no files. Committing them as they are would show transactions without their rows.
The source's answer counts only if it is complete: the metastore purges write events by age, together with the
notification log. They are written after the transaction's first write id, so the answer is complete as long
as that event is still in the log.
"""

from __future__ import annotations

from typing import Final

from handlers.decoding.write_events import decode_write_event
from handlers.events import FilesWritten, TxnCommitted
from handlers.replication.context import Context
from handlers.replication.policy.renames import follow_table
from handlers.structs.notifications import WriteEventInfo
from state.errors import (
    BadInput,
    FileLost,
    LimitExceeded,
    MetastoreUnavailable,
    ServerFault,
    TidelineError,
    Unsupported,
)
from state.transactions.open_transactions import SourceTxn


_ALLOCATION: Final = "ALLOC_WRITE_ID_EVENT"
_HINT: Final = "Follow a topic that Tideline's relay writes, then run 'tideline release POLICY TABLE'."


def fetch_writes(event: TxnCommitted, source_txn: SourceTxn | None, context: Context) -> list[FilesWritten]:
    """Return the write events of a commit that is not enriched, without tables that are not replicated.

    If the source cannot report the writes of the transaction, every table that it holds write ids of is
    handled as failed. Raises that error if the tables are unknown either, because the state file was lost.
    """
    try:
        infos = _ask_source(event, source_txn, context)
    except (Unsupported, FileLost, LimitExceeded) as error:
        fail_tables(event, source_txn, error, context)
        return []
    writes = []
    for info in infos:
        db, table = (info.database or "").lower(), (info.table or "").lower()
        if not context.policy.covers_db(db):
            continue
        try:
            write = follow_table(decode_write_event(event, info), context.tables.write_ids)
        except BadInput as error:
            if context.in_scope(db, table):
                context.handle_failure(table, event.event_id, error)
            continue
        if write is not None:
            writes.append(write)
    return [
        write
        for write in writes
        if context.in_scope(write.db, write.table)
        and context.policy.copies_rows(write.table or "")
        and not context.tables.loads.contains_write(write.table or "", write.write_id)
    ]


def fail_tables(
    event: TxnCommitted, source_txn: SourceTxn | None, error: TidelineError, context: Context
) -> None:
    """Handle every replicated table of the transaction as failed; raise ``error`` if
    its tables are unknown.
    """
    if source_txn is None:
        raise error
    for allocation in source_txn.allocations:
        db, _, table = allocation.table.partition(".")
        if context.in_scope(db, table):
            context.handle_failure(table, event.event_id, error)


def _ask_source(event: TxnCommitted, source_txn: SourceTxn | None, context: Context) -> list[WriteEventInfo]:
    """Return the source's answer; raise Unsupported, FileLost or LimitExceeded if it has none, Transient if
    it does not answer.

    An internal error of the source is not a failure of a table, so replay retries it indefinitely.
    """
    try:
        infos = context.source.write_events(event.txn_id, db=context.policy.source_db)
        first = source_txn.first_event_id if source_txn is not None else event.event_id
        oldest = context.source.next_events(first - 1, 1)
    except ServerFault as fault:
        raise MetastoreUnavailable(
            "the source's metastore cannot return a transaction's write events",
            txn_id=event.txn_id,
            reason=str(fault),
        ) from fault
    except Unsupported as error:
        raise Unsupported(
            "a commit did not list its files, and the source's metastore does not report them",
            hint=_HINT,
            txn_id=event.txn_id,
        ) from error
    kind = _ALLOCATION if source_txn is not None else event.kind
    if not any((each.eventId, each.eventType) == (first, kind) for each in oldest):
        raise FileLost(
            "a commit did not list its files, and the source has purged the list",
            hint=_HINT,
            txn_id=event.txn_id,
        )
    return infos
