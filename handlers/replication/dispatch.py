"""Dispatch of events: decides whether an event concerns the policy, and calls the one function that knows its effect.

Events of kinds that are not listed here have no effect on a replica by intent: functions, catalogs, compactions (the target
compacts by itself), deletions of statistics (Hive does not replay them either) and unknown kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from handlers.events import (
    ConstraintDropped,
    ConstraintsAdded,
    DatabaseAltered,
    DatabaseCreated,
    DatabaseDropped,
    Event,
    FilesWritten,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsUpdated,
    TableAltered,
    TableCreated,
    TableDropped,
    TxnAborted,
    TxnCommitted,
    Undecodable,
    WriteIdsAllocated,
)
from handlers.failpoints import failpoint
from handlers.replication.context import QUARANTINED, Context
from handlers.replication.effects import constraints, databases, partitions, plain_files, statistics, tables
from handlers.replication.renames import (
    Rename,
    find_rename,
    follow_table,
    is_foreign,
    may_concern,
    name_on_target,
)
from handlers.replication.transactions import TransactionReplay
from state.errors import BadInput, Inconsistent, NotFound, Refused, ServerFault, TidelineError, Unsupported


Effect = Callable[[Any, Context], None]
DATABASE_EFFECTS: Final[dict[type[Event], Effect]] = {
    DatabaseCreated: databases.create,
    DatabaseAltered: databases.alter,
    DatabaseDropped: databases.drop,
}
TABLE_EFFECTS: Final[dict[type[Event], Effect]] = {
    TableCreated: tables.create,
    TableAltered: tables.alter,
    TableDropped: tables.drop,
    PartitionsAdded: partitions.add,
    PartitionsAltered: partitions.alter,
    PartitionsDropped: partitions.drop,
    Inserted: plain_files.insert,
    StatisticsUpdated: statistics.update,
    ConstraintsAdded: constraints.add,
    ConstraintDropped: constraints.drop,
}
IGNORED_IF_UNDECODABLE: Final = frozenset({"OPEN_TXN"})
"""Kinds without a table whose content is not needed: the target's transaction is opened at its first write id."""
NOTHING_TO_DO: Final = "nothing-to-do"
OUT_OF_SCOPE: Final = "out-of-scope"


class Dispatcher:
    """Applies the events of one policy, one at a time and in order."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.transactions = TransactionReplay(context)

    def apply(self, event: Event) -> str | None:
        """Apply ``event``; return None if it took effect, otherwise the reason why it did not.

        A permanent failure of one table is handled as the policy requires; by default the table is quarantined. Raises
        transient errors and errors that concern the policy as a whole.
        """
        if is_foreign(event):
            return OUT_OF_SCOPE
        kind = type(event)
        if isinstance(event, TableAltered) and (move := self._rename_in_scope(event)) is not None:
            return self._apply_rename(event, move)
        if kind in TABLE_EFFECTS or isinstance(event, FilesWritten | WriteIdsAllocated):
            return self._apply_to_table(event)
        if isinstance(event, TxnCommitted | TxnAborted):
            return self._apply_to_transaction(event)
        if kind in DATABASE_EFFECTS:
            return self._apply_to_database(event)
        return self._apply_undecodable(event) if isinstance(event, Undecodable) else NOTHING_TO_DO

    def remember(self, event: Event) -> None:
        """Record an event that the target already has, so that the write-id mapping is as it was after applying it."""
        context = self._context
        if is_foreign(event):
            return
        if isinstance(event, TxnCommitted):
            context.write_ids.commit(event.txn_id)
        elif isinstance(event, TxnAborted):
            context.write_ids.abort(event.txn_id)
        elif isinstance(event, DatabaseDropped) and context.policy.covers_db(event.db):
            context.write_ids.drop_database(context.policy.source_db)
        elif isinstance(event, TableAltered):
            self._remember_rename(event)
        elif context.in_scope(event.db, event.table):
            self._remember_table(event)

    def _remember_rename(self, event: TableAltered) -> None:
        """Forget a table that left the policy. One that entered it was quarantined, and that is already recorded."""
        move = self._rename_in_scope(event)
        if move is None or not self._context.policy.covers(*move.before):
            return
        old, new = (f"{db}.{table}" for db, table in (move.before, move.after))
        if self._context.policy.covers(*move.after):
            self._context.write_ids.rename_table(old, new)
        else:
            self._context.write_ids.drop_table(old)

    def _remember_table(self, event: Event) -> None:
        write_ids = self._context.write_ids
        if isinstance(event, WriteIdsAllocated):
            for txn_id, write_id in event.pairs:
                write_ids.allocate(txn_id, f"{event.db}.{event.table}", write_id, event.event_id)
        elif isinstance(event, TableDropped):
            write_ids.drop_table(f"{event.db}.{event.table}")
        elif isinstance(event, PartitionsAdded | PartitionsAltered):
            partitions.remember_touched(event, self._context)

    def give_up(self, event: Event, fault: ServerFault) -> str:
        """Handle an event at which the target has failed repeatedly as a failure of its table; raise if it has no table."""
        if isinstance(event, TxnCommitted):
            self.transactions.commit_without_files(event, fault)
            return QUARANTINED
        table = name_on_target(event)
        if table is None:
            raise fault
        return self._failed(table, event, fault)

    def _apply_to_database(self, event: Event) -> str | None:
        if not self._context.policy.covers_db(event.db):
            return OUT_OF_SCOPE
        failpoint("replay.before-effect")
        DATABASE_EFFECTS[type(event)](event, self._context)
        failpoint("replay.after-effect")
        return None

    def _apply_to_transaction(self, event: TxnCommitted | TxnAborted) -> str | None:
        transactions = self.transactions
        concerns_policy = (
            transactions.commit(event) if isinstance(event, TxnCommitted) else transactions.abort(event)
        )
        return None if concerns_policy else OUT_OF_SCOPE

    def _apply_to_table(self, event: Event) -> str | None:
        context = self._context
        if isinstance(event, FilesWritten):
            current = follow_table(event, context.write_ids)
            if current is None:
                return NOTHING_TO_DO
            event = current
        table = name_on_target(event)
        if table is None or not context.policy.covers(event.db, table):
            return OUT_OF_SCOPE
        if table in context.quarantine and not self._starts_again(event, table):
            return self._apply_to_quarantined(event, table)
        try:
            self._apply_effect(event)
        except (BadInput, Refused, Inconsistent) as error:
            return self._failed(table, event, error)
        return None

    def _starts_again(self, event: Event, table: str) -> bool:
        """Release a quarantined table that the event creates again and the target does not have; return whether it does.

        The quarantined one no longer exists at the source then. If the target still has it, it keeps its rows.
        """
        entry = self._context.quarantine.get(table)
        if not isinstance(event, TableCreated) or entry is None or event.event_id <= entry.event_id:
            return False
        with suppress(NotFound):
            self._context.target.get_table(self._context.policy.target_db, table)
            return False
        tables.forget(event.db, table, self._context)
        return True

    def _failed(self, table: str, event: Event, error: TidelineError) -> str:
        """Handle a failure of ``table`` as the policy requires, and discard its files of unfinished transactions."""
        reason = self._context.handle_failure(table, event.event_id, error)
        self.transactions.files.discard_table(table)
        return reason

    def _rename_in_scope(self, event: TableAltered) -> Rename | None:
        return find_rename(event) if may_concern(event, self._context.policy) else None

    def _apply_rename(self, event: TableAltered, move: Rename) -> str | None:
        """Replay a rename within the policy, out of it (the table is dropped) or into it (its rows must be loaded first)."""
        covers, old, new = self._context.policy.covers, move.before[1], move.after[1]
        if not covers(*move.before):
            return self._quarantine_newcomer(event, new) if covers(*move.after) else OUT_OF_SCOPE
        failpoint("replay.before-rename")
        try:
            if not covers(*move.after):
                tables.drop_renamed_away(move, self._context)
            elif old in self._context.quarantine:
                tables.rename_quarantined(move, self._context)
                return QUARANTINED
            else:
                tables.alter(event, self._context)
        except (BadInput, Refused, Inconsistent) as error:
            self._failed(new, event, error)
            return self._failed(old, event, error)
        failpoint("replay.after-rename")
        return None

    def _quarantine_newcomer(self, event: TableAltered, table: str) -> str:
        error = Unsupported(
            "a table was renamed into the policy, with rows that no event contains",
            table=f"{event.db}.{table}",
            hint="Bootstrap the table, or drop and create it again at the source.",
        )
        return self._failed(table, event, error)

    def _apply_effect(self, event: Event) -> None:
        if isinstance(event, FilesWritten):
            self.transactions.start_copies(event)
        elif isinstance(event, WriteIdsAllocated):
            self.transactions.allocate(event)
        else:
            failpoint("replay.before-effect")
            TABLE_EFFECTS[type(event)](event, self._context)
            failpoint("replay.after-effect")

    def _apply_to_quarantined(self, event: Event, table: str) -> str | None:
        """Skip the event of a quarantined table; a drop of the table is applied and releases it."""
        if isinstance(event, FilesWritten):
            self.transactions.files.discard_early_copies(event)
        if not isinstance(event, TableDropped):
            return QUARANTINED
        try:
            tables.drop(event, self._context)
        except Refused as error:
            return self._failed(table, event, error)
        return None

    def _apply_undecodable(self, event: Undecodable) -> str:
        """Handle an undecodable event as a failure of its table; raise if it may concern the whole policy."""
        if event.table is not None and event.db is not None:
            if self._context.policy.covers(event.db, event.table):
                return self._failed(event.table, event, event.error)
            return OUT_OF_SCOPE
        if event.db is not None and not self._context.policy.covers_db(event.db):
            return OUT_OF_SCOPE
        if event.kind in IGNORED_IF_UNDECODABLE:
            return NOTHING_TO_DO
        raise event.error
