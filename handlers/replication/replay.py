"""From an event to its effect: decides whether it concerns the policy, and hands it to the one function that knows it.

What is not listed here has no effect on a replica, and is passed on purpose: functions, catalogs, compactions (the target
compacts by itself), statistics deletions (Hive does not replay them either), events of kinds that are not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from handlers.events import (
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
from handlers.replication import databases, inserts, partitions, statistics, tables
from handlers.replication.context import CONFINED, Context
from handlers.replication.transactions import TransactionReplay
from state.errors import BadInput, Inconsistent, Refused, ServerFault


Effect = Callable[[Any, Context], None]
OF_DATABASES: Final[dict[type[Event], Effect]] = {
    DatabaseCreated: databases.create,
    DatabaseAltered: databases.alter,
    DatabaseDropped: databases.drop,
}
OF_TABLES: Final[dict[type[Event], Effect]] = {
    TableCreated: tables.create,
    TableAltered: tables.alter,
    TableDropped: tables.drop,
    PartitionsAdded: partitions.add,
    PartitionsAltered: partitions.alter,
    PartitionsDropped: partitions.drop,
    Inserted: inserts.insert,
    StatisticsUpdated: statistics.update,
}
PASSED: Final = "nothing-to-do"
OUT_OF_SCOPE: Final = "out-of-scope"


class Replay:
    """Applies single events of one policy, in order."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.transactions = TransactionReplay(context)

    def apply(self, event: Event) -> str | None:
        """Apply ``event``; return None where it took effect, else the reason why it had none.

        A permanent failure that concerns one table confines that table and is no failure of the policy. Raises what is
        transient, and what concerns the policy as a whole.
        """
        kind = type(event)
        if kind in OF_TABLES or isinstance(event, FilesWritten | WriteIdsAllocated):
            return self._about_table(event)
        if isinstance(event, TxnCommitted):
            return None if self.transactions.committed(event) else OUT_OF_SCOPE
        if isinstance(event, TxnAborted):
            return None if self.transactions.aborted(event) else OUT_OF_SCOPE
        if kind in OF_DATABASES:
            return self._about_database(event)
        if isinstance(event, Undecodable):
            return self._undecodable(event)
        return PASSED

    def remember(self, event: Event) -> None:
        """Take note of an event that the target has already, so that the ledger is what it was when it was applied."""
        context = self._context
        if isinstance(event, TxnCommitted):
            context.ledger.committed(event.txn_id)
        elif isinstance(event, TxnAborted):
            context.ledger.aborted(event.txn_id)
        elif isinstance(event, DatabaseDropped) and context.policy.covers_db(event.db):
            context.ledger.database_dropped(context.policy.source_db)
        elif context.in_scope(event.db, self._name_before(event)):
            self._remember_table(event)

    def _remember_table(self, event: Event) -> None:
        ledger = self._context.ledger
        if isinstance(event, WriteIdsAllocated):
            for txn_id, write_id in event.pairs:
                ledger.allocated(txn_id, f"{event.db}.{event.table}", write_id, event.event_id)
        elif isinstance(event, TableDropped):
            ledger.dropped(f"{event.db}.{event.table}")
        elif isinstance(event, TableAltered) and self._name_before(event) != event.table:
            ledger.renamed(f"{event.db}.{self._name_before(event)}", f"{event.db}.{event.table}")
        elif isinstance(event, PartitionsAdded | PartitionsAltered):
            partitions.remember_touched(event, self._context)

    def give_up(self, event: Event, fault: ServerFault) -> str:
        """Confine what ``event`` is about after the target has failed at it again and again; raise where that is no table."""
        if isinstance(event, TxnCommitted):
            self.transactions.commit_without_files(event, fault)
            return CONFINED
        table = self._name_before(event)
        if table is None:
            raise fault
        return self._context.failed(table, event.event_id, fault)

    def _about_database(self, event: Event) -> str | None:
        if not self._context.policy.covers_db(event.db):
            return OUT_OF_SCOPE
        OF_DATABASES[type(event)](event, self._context)
        return None

    def _about_table(self, event: Event) -> str | None:
        context = self._context
        table = self._name_before(event)
        if table is None or not context.policy.covers(event.db, table):
            return OUT_OF_SCOPE
        if table in context.quarantine:
            return self._about_confined(event, table)
        try:
            self._effect(event)
        except (BadInput, Refused, Inconsistent) as error:
            return context.failed(table, event.event_id, error)
        return None

    def _effect(self, event: Event) -> None:
        if isinstance(event, FilesWritten):
            self.transactions.written(event)
        elif isinstance(event, WriteIdsAllocated):
            self.transactions.allocated(event)
        else:
            OF_TABLES[type(event)](event, self._context)

    def _about_confined(self, event: Event, table: str) -> str | None:
        """A confined table is passed over, but its end ends the confinement, and its new name is confined too."""
        if isinstance(event, TableDropped):
            tables.drop(event, self._context)
            return None
        if isinstance(event, TableAltered) and event.table is not None and event.table != table:
            self._context.quarantine.rename(table, event.table)
        return CONFINED

    @staticmethod
    def _name_before(event: Event) -> str | None:
        """Return the name by which the target knows the table: a rename's event stands under the new one."""
        if isinstance(event, TableAltered):
            return (event.before.value.tableName or "").lower()
        return event.table

    def _undecodable(self, event: Undecodable) -> str:
        """Confine the table that an unreadable event names; one that may concern anything stops the policy."""
        if event.table is not None and event.db is not None:
            if self._context.policy.covers(event.db, event.table):
                return self._context.failed(event.table, event.event_id, event.error)
            return OUT_OF_SCOPE
        if event.db is not None and not self._context.policy.covers_db(event.db):
            return OUT_OF_SCOPE
        raise event.error
