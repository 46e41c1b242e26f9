"""Recent changes at the source: finds the tables that the events between two ids concern.

A comparison reads two moving sides, one after the other. It proves a difference only if no event between the
replica's position before it and the source's newest event after it concerns the table. Events name their
table, except for the ends of transactions: these are found through the write ids that they end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from handlers.decoding.messages import Limits
from handlers.decoding.notifications import decode_notification
from handlers.events import (
    DatabaseAltered,
    DatabaseCreated,
    DatabaseDropped,
    Event,
    FunctionCreated,
    FunctionDropped,
    TxnAborted,
    TxnCommitted,
    Undecodable,
)
from handlers.metastore.calls import V4_1
from handlers.metastore.client import Metastore
from handlers.replication.policy.policy import Policy
from handlers.replication.policy.renames import find_rename, is_foreign
from handlers.structs.notifications import NotificationEvent
from state.errors import GapDetected
from state.transactions.valid_write_ids import ValidWriteIds, WriteIdState


PAGE: Final = 1_000
_LIMITS: Final = Limits()
_OF_DATABASES: Final = (
    DatabaseCreated,
    DatabaseAltered,
    DatabaseDropped,
    FunctionCreated,
    FunctionDropped,
    Undecodable,
)


@dataclass(slots=True)
class RecentChanges:
    """The events of one source that concern a policy, read once and in order."""

    source: Metastore
    policy: Policy
    beat: Callable[[], None] = lambda: None
    _from_id: int = -1
    """Events above this id and up to ``_upto_id`` are known."""
    _upto_id: int = -1
    _tables: dict[str, list[int]] = field(default_factory=dict)
    """Ids of the events that name a table."""
    _database: list[int] = field(default_factory=list)
    """Ids of the events about the database itself or its functions."""
    _ends: list[tuple[int, frozenset[int] | None]] = field(default_factory=list)
    """Ends of transactions with the write ids in the database that they committed; None if the event does not
    say."""

    def read(self, after: int, upto: int) -> None:
        """Read the events above ``after`` and up to ``upto``; raise GapDetected if the log no longer has
        them.
        """
        if self._from_id < 0 or after < self._from_id:
            self._from_id = self._upto_id = after
            self._tables, self._database, self._ends = {}, [], []
        while self._upto_id < upto:
            page = self.source.next_events(self._upto_id, min(PAGE, upto - self._upto_id))
            if not page or page[0].eventId != self._upto_id + 1:
                raise GapDetected(
                    "the source's log does not reach back to the replica's position, so a difference may "
                    "only be a delay",
                    first=self._upto_id + 1,
                    hint="Wait until the replica has caught up, then verify again. If the policy has "
                    "stopped at a gap, run 'tideline gap policy POLICY' first.",
                )
            for each in page:
                self._add(each)
            self.beat()

    def concern(
        self, table: str, after: int, upto: int, write_ids: tuple[ValidWriteIds | None, ValidWriteIds | None]
    ) -> bool:
        """Whether an event above ``after`` and up to ``upto``, which are read, may have changed ``table``.

        ``write_ids`` are its lists on both sides.
        """
        if any(after < each <= upto for each in (*self._database, *self._tables.get(table, ()))):
            return True
        return any(_ends_write(ids, *write_ids) for event_id, ids in self._ends if after < event_id <= upto)

    def forget(self, upto: int) -> None:
        """Forget the events up to ``upto``, which no later comparison needs."""
        if upto <= self._from_id:
            return
        self._from_id = min(upto, self._upto_id)
        newer = {name: [each for each in ids if each > upto] for name, ids in self._tables.items()}
        self._tables = {name: ids for name, ids in newer.items() if ids}
        self._database = [each for each in self._database if each > upto]
        self._ends = [each for each in self._ends if each[0] > upto]

    def _add(self, notification: NotificationEvent) -> None:
        event = decode_notification(notification.set_fields(), _LIMITS, None)
        event_id = self._upto_id = event.event_id
        if is_foreign(event):
            return
        covers = self.policy.covers_db
        if isinstance(event, TxnCommitted):
            pairs = zip(event.write_ids, event.databases, strict=True)
            ids = frozenset(write_id for write_id, db in pairs if covers(db.lower()))
            self._add_end(event, ids)
        elif isinstance(event, TxnAborted):
            self._add_end(event, None)
        elif isinstance(event, _OF_DATABASES) and event.table is None and covers(event.db):
            self._database.append(event_id)
        else:
            self._add_tables(event)

    def _add_end(self, event: TxnCommitted | TxnAborted, ids: frozenset[int] | None) -> None:
        """Note the end of a transaction.
        Since Hive 4.1 it names the databases that the transaction wrote into, possibly none.
        """
        if not event.databases and self.source.hive_version < V4_1:
            self._ends.append((event.event_id, None))
        elif any(self.policy.covers_db(db.lower()) for db in event.databases):
            self._ends.append((event.event_id, ids))

    def _add_tables(self, event: Event) -> None:
        move = find_rename(event)
        names = {(event.db, event.table)} | ({move.before, move.after} if move else set())
        for db, table in names:
            if self.policy.covers_db(db) and table is not None:
                self._tables.setdefault(table, []).append(event.event_id)


def _ends_write(
    ids: frozenset[int] | None, source: ValidWriteIds | None, target: ValidWriteIds | None
) -> bool:
    """Whether a transaction may have ended a write of the table,
    whose lists were read after the earlier of the two ids.

    An id that the source's list does not have was allocated later, by an event that names the table, or
    belongs to another table. One that readers of both sides see was committed on both before the reads.
    Without ids, the transaction may have ended any open write.
    """
    if source is None or target is None:
        return False
    if ids is None:
        return bool(source.open or target.open)
    return any(_may_have_ended(source.state_of(each), target.state_of(each)) for each in ids)


def _may_have_ended(at_source: WriteIdState, on_target: WriteIdState) -> bool:
    if at_source in {WriteIdState.OPEN, WriteIdState.HIDDEN}:
        return True
    return at_source is WriteIdState.VISIBLE and on_target is not WriteIdState.VISIBLE
