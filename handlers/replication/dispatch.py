"""Dispatch of events: whether one concerns the policy and a followed table; and failures of tables.

The effects are in ``effects.effect_table`` and ``transactions.transaction_replay``. Events of other kinds
deliberately have no effect on a replica: catalogs, compactions (the target compacts on its own; a rebalanced
table needs a load) and unknown kinds. The same holds for the events of tables without replication, such as
materialized views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from handlers.decoding.header import UNREADABLE_KIND
from handlers.events import (
    CompactionCommitted,
    Event,
    FilesWritten,
    FunctionCreated,
    TableAltered,
    TableCreated,
    TableDropped,
    TxnAborted,
    TxnCommitted,
    TxnsOpened,
    Undecodable,
    WriteIdsAllocated,
)
from handlers.failpoints import failpoint
from handlers.replication.context import QUARANTINED, Context
from handlers.replication.effects import (
    functions,
    loaded_tables,
    tables,
)
from handlers.replication.effects.effect_table import DATABASE_EFFECTS, TABLE_EFFECTS, apply_effect
from handlers.replication.effects.files_in_place import needs_load
from handlers.replication.effects.loaded_tables import NOTHING_TO_DO, find_changed_tables
from handlers.replication.effects.unreplicated import record_kind
from handlers.replication.policy.metadata_only import select_metadata
from handlers.replication.policy.renames import (
    Rename,
    find_rename,
    follow_table,
    is_foreign,
    may_concern,
    name_on_target,
)
from handlers.replication.tables.table_loads import LOADED, LOADING
from handlers.replication.transactions.target_write_ids import CommitProofs
from handlers.replication.transactions.transaction_replay import TransactionReplay
from handlers.structs.objects import Table
from state.errors import BadInput, Inconsistent, NotFound, Refused, ServerFault, TidelineError


log = structlog.get_logger(__name__)

IGNORED_IF_UNDECODABLE: Final = frozenset(
    {
        "OPEN_TXN",
        "COMMIT_COMPACTION_EVENT",
        "RELOAD",
        "CREATE_FUNCTION",
        "DROP_FUNCTION",
        "CREATE_CATALOG",
        "ALTER_CATALOG",
        "DROP_CATALOG",
        "CREATE_DATACONNECTOR",
        "ALTER_DATACONNECTOR",
        "DROP_DATACONNECTOR",
        "CONFIG_CHANGE_EVENT",
    }
)
"""Kinds without effect on a replica, whose content does not matter. (The first write id opens the target's
transaction.)"""
OUT_OF_SCOPE: Final = "out-of-scope"


class Dispatcher:
    """Applies the events of one policy, one at a time and in order."""

    def __init__(
        self, context: Context, proofs: CommitProofs, *, record_before: Callable[[int], None]
    ) -> None:
        """``record_before`` makes the position before an event durable; it is called before a transaction
        ends (``transactions.transaction_replay``).
        """
        self._context = context
        self.transactions = TransactionReplay(context, proofs, record_before=record_before)

    def may_take_effect(self, event: Event) -> bool:
        """Whether applying ``event`` may change the target, or more of the state than the position; decided
        without decoding the event's objects.

        It may if it concerns the policy's database, or a transaction with known writes into it. The
        allocation that makes a transaction known is an event of the database itself.
        """
        if isinstance(event, TxnsOpened):
            return False
        if isinstance(event, TxnCommitted | TxnAborted):
            return self.transactions.is_known(event.txn_id)
        if isinstance(event, FilesWritten) and self.transactions.is_known(event.txn_id):
            return True
        return may_concern(event, self._context.policy)

    def apply(self, event: Event) -> str | None:
        """Apply ``event``; return None if it took effect, otherwise the reason why it did not.

        The policy decides on a permanent failure of one table; by default it quarantines the table. Raises
        transient errors and errors that concern the policy as a whole.
        """
        if is_foreign(event) or record_kind(event, self._context):
            return OUT_OF_SCOPE
        selected = select_metadata(event, self._context.policy)
        return NOTHING_TO_DO if selected is None else self._apply_selected(selected)

    def apply_joined(self, event: Event) -> bool:
        """Apply an event that stands for several events of a table in scope (``merged_events``); return
        False if the target refuses it.
        """
        selected = select_metadata(event, self._context.policy)
        assert selected is not None
        try:
            if needs_load(selected, self._context):
                return False
            self._apply_effect(selected)
        except (BadInput, Refused, Inconsistent, ServerFault):
            return False
        return True

    def adopt(self, events: Sequence[Event], table: Table | None) -> None:
        """Take over the results of an event that was applied early (``work_ahead``), with the target's
        table if it is known.
        """
        context, name = self._context, events[0].table or ""
        if table is None:
            context.table_cache.forget(name)
        else:
            context.table_cache.put(name, table)
            context.table_cache.forget_partitions(name)
        if isinstance(events[0], TableDropped):
            context.tables.forget(name)
        for event in events:
            try:
                self._load_if_needed(event, name)
            except BadInput as error:
                self._failed(name, event, error)

    def give_up(self, event: Event, fault: ServerFault) -> str:
        """Handle an event at which the target has failed repeatedly as a failure of its table;
        raise if it has no table.
        """
        if isinstance(event, TxnCommitted):
            self.transactions.commit_without_files(event, fault)
            return QUARANTINED
        if isinstance(event, FunctionCreated):
            functions.report(functions.name_of(event), event.event_id, fault, self._context)
            return QUARANTINED
        table = name_on_target(event)
        if table is None:
            raise fault
        return self._failed(table, event, fault)

    def _apply_selected(self, event: Event) -> str | None:
        policy = self._context.policy
        reason: str | None = None
        match event:
            case TxnCommitted():
                reason = None if self.transactions.commit(event) else OUT_OF_SCOPE
            case TxnAborted():
                reason = None if self.transactions.abort(event) else OUT_OF_SCOPE
            case CompactionCommitted():
                reason = self._apply_compaction(event)
            case Undecodable():
                reason = self._apply_undecodable(event)
            case TableAltered() if may_concern(event, policy) and (move := find_rename(event)) is not None:
                reason = self._apply_rename(event, move)
            case _ if type(event) in TABLE_EFFECTS or isinstance(event, FilesWritten | WriteIdsAllocated):
                reason = self._apply_to_table(event)
            case _ if type(event) not in DATABASE_EFFECTS:
                reason = NOTHING_TO_DO
            case _ if policy.covers_db(event.db):
                apply_effect(event, self._context)
            case _:
                reason = OUT_OF_SCOPE
        return reason

    def _apply_to_table(self, event: Event) -> str | None:
        context = self._context
        if isinstance(event, FilesWritten):
            current = follow_table(event, context.tables.write_ids)
            if current is None:
                return NOTHING_TO_DO
            event = current
        table = name_on_target(event)
        if table is None or not context.policy.covers(event.db, table):
            return OUT_OF_SCOPE
        if loaded_tables.is_loaded(event, table, context) or self._is_of_earlier_table(event):
            return LOADED
        try:
            return self._apply_in_scope(event, table)
        except (BadInput, Refused, Inconsistent) as error:
            return self._failed(table, event, error)

    def _apply_in_scope(self, event: Event, table: str) -> str | None:
        """Apply an event of a table of the policy, unless the table waits for its load or is quarantined."""
        context = self._context
        if context.tables.loads.is_waiting(table):
            return loaded_tables.apply_to_waiting(event, table, context)
        if table in context.tables.quarantine and not self._starts_again(event, table):
            return self._apply_to_quarantined(event)
        new = loaded_tables.select_new_write_ids(event, table, context)
        if self._load_if_needed(new, table):
            return LOADING
        self._apply_effect(new)
        return None

    def _apply_effect(self, event: Event) -> None:
        if isinstance(event, FilesWritten):
            self.transactions.start_copies(event)
        elif isinstance(event, WriteIdsAllocated):
            self.transactions.allocate(event)
        else:
            apply_effect(event, self._context)

    def _apply_to_quarantined(self, event: Event) -> str | None:
        """Skip the event of a quarantined table; a drop of the table is applied and releases it."""
        if isinstance(event, FilesWritten):
            self.transactions.files.discard_early_copies(event)
        if not isinstance(event, TableDropped):
            return QUARANTINED
        tables.drop(event, self._context)
        return None

    def _load_if_needed(self, event: Event, table: str) -> bool:
        """Have the table loaded if the event changes its rows without a write event;
        return whether it does.
        """
        if not needs_load(event, self._context):
            return False
        log.info(
            "the rows of a table changed without a write event; it will be loaded",
            table=table,
            kind=event.kind,
            event_id=event.event_id,
        )
        self._load([table])
        return True

    def _is_of_earlier_table(self, event: Event) -> bool:
        """Whether the files have a write id that replay did not allocate on the target.

        At the allocation, the table was waiting for its load, or was quarantined. Since then, the table may
        have been renamed or dropped, and the name in the write event may belong to another table. If the
        state file was lost, the write ids of older transactions are unknown, and the event is applied.
        """
        if not isinstance(event, FilesWritten) or event.txn_id <= self.transactions.marks.unknown_txn_id:
            return False
        name = f"{event.db}.{event.table}"
        return self._context.tables.write_ids.find_written_table(event.txn_id, name, event.write_id) is None

    def _starts_again(self, event: Event, table: str) -> bool:
        """Release a quarantined table if the event creates it again and the target does not have it; return
        whether this applies.

        The quarantined table then no longer exists at the source. If the target still has it, the target
        keeps its rows.
        """
        entry = self._context.tables.quarantine.get(table)
        if not isinstance(event, TableCreated) or entry is None or event.event_id <= entry.event_id:
            return False
        with suppress(NotFound):
            self._context.target.get_table(self._context.policy.target_db, table)
            return False
        self._context.tables.forget(table)
        return True

    def _apply_rename(self, event: TableAltered, move: Rename) -> str | None:
        """Replay a rename within the policy, out of it (drop the table) or into it (load the table)."""
        covers, old, new = self._context.policy.covers, move.before[1], move.after[1]
        if not covers(*move.before) and not covers(*move.after):
            return OUT_OF_SCOPE
        failpoint("replay.before-rename")
        try:
            if loaded_tables.is_rename_of_loads(event, move, self._context):
                return loaded_tables.apply_rename(event, move, self._context)
            if not covers(*move.after):
                tables.drop_renamed_away(move, self._context)
            elif old in self._context.tables.quarantine:
                tables.rename_quarantined(move, self._context)
                return QUARANTINED
            else:
                tables.alter(event, self._context)
        except (BadInput, Refused, Inconsistent) as error:
            self._failed(new, event, error)
            return self._failed(old, event, error)
        failpoint("replay.after-rename")
        return None

    def _apply_compaction(self, event: CompactionCommitted) -> str:
        """Load a table that the source rebalanced; other compactions have no effect."""
        if not self._context.policy.covers(event.db, event.table):
            return OUT_OF_SCOPE
        return loaded_tables.skip_compaction(event, self._context) or self._load([event.table or ""])

    def _apply_undecodable(self, event: Undecodable) -> str:
        """Handle an undecodable event as a failure of its table;
        without a table, load those that it may have changed.

        Raises the event's error if it concerns the policy, and the policy stops at failures.
        """
        if event.kind in IGNORED_IF_UNDECODABLE:
            return NOTHING_TO_DO
        if event.table is not None and event.db is not None:
            return self._apply_undecodable_to_table(event, event.table)
        if event.db is not None and not self._context.policy.covers_db(event.db):
            return OUT_OF_SCOPE
        changed = find_changed_tables(event, self._context)
        if changed and self._context.policy.on_failure == "fail":
            raise event.error
        return self._load(changed) if changed else OUT_OF_SCOPE

    def _apply_undecodable_to_table(self, event: Undecodable, table: str) -> str:
        context = self._context
        if not context.policy.covers(event.db, table):
            return OUT_OF_SCOPE
        if context.tables.loads.contains_event(table, event.event_id):
            return LOADED
        if event.kind == UNREADABLE_KIND and context.policy.on_failure != "fail":
            return self._load([table])  # nothing is wrong with the table
        return LOADING if context.tables.loads.is_waiting(table) else self._failed(table, event, event.error)

    def _load(self, tables: Iterable[str]) -> str:
        """Have tables loaded after this event."""
        self.transactions.load(tables)
        return LOADING

    def _failed(self, table: str, event: Event, error: TidelineError) -> str:
        """Handle a failure of ``table`` as the policy requires,
        and discard its files of unfinished transactions.
        """
        reason = self._context.handle_failure(table, event.event_id, error)
        self.transactions.files.discard_table(table)
        return reason
