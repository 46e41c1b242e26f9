"""One batch of events: what each means for the tables that are watched, handed to the followers in one transaction.

Events of tables that nobody wants cost a look-up of the name. A table that waits to be loaded passes over its events: the
listing will hold what they did; where it is being loaded in pieces, they go to what is staged. What does not fit what is known
(a rename of a table never seen, columns that changed) is not guessed at: the table is loaded again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from handlers.catalog.following.partition_events import apply_partition_event
from handlers.catalog.following.table_info import TableInfo, describe_table, qualify
from handlers.catalog.following.table_states import WatchedTable
from handlers.events import (
    DatabaseDropped,
    Event,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsUpdated,
    TableAltered,
    TableCreated,
    TableDropped,
    Undecodable,
)
from state.errors import BadInput
from state.timelines.table_properties import APPLIED_EVENT


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.catalog.following.ports import Follower, FollowerChange, Observer
    from handlers.catalog.following.table_states import LoadProgress, TableStates
    from state.store import Transaction


CATALOGS: Final = frozenset({None, "hive"})
"""The metastore's own catalog; tables of others (Spark's, federated ones) are not followed."""
_HANDLED: Final = (
    DatabaseDropped,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsUpdated,
    TableAltered,
    TableCreated,
    TableDropped,
    Undecodable,
)
OUT_OF_SCOPE: Final = "out-of-scope"


class Batch:
    """The events of one transaction."""

    def __init__(
        self,
        txn: Transaction,
        states: TableStates,
        pairs: Sequence[tuple[Follower, FollowerChange]],
        observer: Observer,
    ) -> None:
        self._txn = txn
        self._states = states
        self._followers = [follower for follower, _ in pairs]
        self._changes = [change for _, change in pairs]
        self._staging = [change for change in self._changes if change.staging is not None]
        self._observer = observer

    def apply(self, event: Event) -> None:
        """Apply one event; a table whose event cannot be used is quarantined. Raises its error where it names no table."""
        if not isinstance(event, _HANDLED) or event.catalog not in CATALOGS or event.db is None:
            if isinstance(event, Undecodable) and event.db is None:
                raise event.error
            self._observer.event_skipped(OUT_OF_SCOPE)
            return
        try:
            reason = self._applied(event, event.db)
        except BadInput as error:
            reason = self._unusable(event, error)
        if reason is None:
            self._observer.event_applied(event.kind)
        else:
            self._observer.event_skipped(reason)

    def finish(self) -> None:
        """Have every table loaded that a follower was unsure about; the last thing in the transaction."""
        for change in self._changes:
            for name in change.doubtful:
                if self._states.get(name) is not None or self._states.is_waiting(name):
                    self._states.request_load(self._txn, name, "unsure")

    def _applied(self, event: Event, db: str) -> str | None:
        match event:
            case DatabaseDropped():
                return self._database_dropped(db, event.event_id)
            case Undecodable():
                raise event.error
            case TableCreated():
                return self._created(event.event_id, describe_table(event.after.value))
            case TableAltered():
                before = event.before.value  # the event's own name is the new one
                return self._altered(event, qualify(before.dbName, before.tableName))
            case TableDropped():
                return self._dropped(event.event_id, qualify(db, event.table or ""))
        return self._partition_event(event, qualify(db, event.table or ""))

    def _partition_event(self, event: Event, name: str) -> str | None:
        watched = self._states.get(name)
        begun = self._begun(name, event.event_id)
        if begun is not None:
            apply_partition_event(event, name, begun.columns, self._staging)
            return None
        reason = self._passed_over(name, watched, event.event_id)
        if reason is None and watched is not None:
            apply_partition_event(event, name, watched.columns, self._changes)
        return reason

    def _begun(self, name: str, event_id: int) -> LoadProgress | None:
        """Return how far the loading of a table is that may have missed an event."""
        begun = self._states.progress(name)
        return begun if begun is not None and event_id > begun.as_of else None

    def _passed_over(self, name: str, watched: WatchedTable | None, event_id: int) -> str | None:
        """Tell why an event about partitions does not count; None where it does."""
        if self._states.is_waiting(name):
            return "loading"
        if watched is None:
            return OUT_OF_SCOPE
        if watched.code is not None:
            return "quarantined"
        return "in-snapshot" if event_id <= watched.as_of else None

    def _created(self, event_id: int, table: TableInfo) -> str | None:
        if self._is_ahead(table.name, event_id):
            return "in-snapshot"
        wanted = [change for change, _ in self._wanting(table)]
        if not wanted:
            return self._dropped(event_id, table.name)
        self._forget(table.name)
        self._states.put(self._txn, table.name, WatchedTable(table.columns, event_id))
        for change in wanted:
            change.create_table(table)
        return None

    def _altered(self, event: TableAltered, name: str) -> str | None:
        table = describe_table(event.after.value)
        if table.name != name:
            return self._renamed(event.event_id, name, table)
        watched = self._states.get(name)
        if watched is None and not self._states.is_waiting(name):
            return self._newly_wanted(table)
        if self._begun(name, event.event_id) is not None:
            self._tell_altered(self._staging, table)
        reason = self._passed_over(name, watched, event.event_id)
        if reason is not None or watched is None:
            return reason
        if _is_own(event, watched):
            return "own"
        if not self._wanting(table):
            return self._dropped(event.event_id, name)
        if table.columns != watched.columns:
            self._states.request_load(self._txn, name, "changed")
        self._tell_altered(self._changes, table)
        return None

    def _tell_altered(self, changes: Sequence[FollowerChange], table: TableInfo) -> None:
        wanting = [change for change, _ in self._wanting(table)]
        for change in changes:
            if change in wanting:
                change.alter_table(table)
            else:
                change.forget_table(table.name)

    def _newly_wanted(self, table: TableInfo) -> str | None:
        if not self._wanting(table):
            return OUT_OF_SCOPE
        self._states.request_load(self._txn, table.name, "changed")
        return None

    def _renamed(self, event_id: int, old: str, table: TableInfo) -> str | None:
        """Carry a table over to its new name, or have that loaded where what is known of the old one is not enough."""
        ahead = self._is_ahead(table.name, event_id)
        watched = None if self._is_ahead(old, event_id) else self._states.get(old)
        waits = self._states.is_waiting(old)
        wanting = self._wanting(table)
        if watched is not None and not waits and wanting and not ahead and _carries(watched, event_id, table):
            self._forget(table.name)
            kept = [change for change, _ in wanting]
            for change in self._changes:
                if change in kept:
                    change.rename_table(old, table)
                else:
                    change.forget_table(old)
            self._states.forget(self._txn, old)
            self._states.put(self._txn, table.name, replace(watched, published=None))
            return None
        if watched is not None or waits:
            self._forget(old)
        if ahead:
            return "in-snapshot"
        if wanting:
            self._states.request_load(self._txn, table.name, "changed")
            return None
        return self._dropped(event_id, table.name)

    def _dropped(self, event_id: int, name: str) -> str | None:
        if self._states.get(name) is None and not self._states.is_waiting(name):
            return OUT_OF_SCOPE
        if self._is_ahead(name, event_id):
            return "in-snapshot"
        self._forget(name)
        return None

    def _database_dropped(self, db: str, event_id: int) -> str | None:
        names = [name for name in self._states.tables_of_db(db) if not self._is_ahead(name, event_id)]
        for name in names:
            self._forget(name)
        return None if names else OUT_OF_SCOPE

    def _is_ahead(self, name: str, event_id: int) -> bool:
        """Whether a table was listed after the event had happened; one that waits to be listed is not."""
        watched = self._states.get(name)
        return watched is not None and not self._states.is_waiting(name) and event_id <= watched.as_of

    def _forget(self, name: str) -> None:
        self._states.forget(self._txn, name)
        for change in self._changes:
            change.forget_table(name)

    def _wanting(self, table: TableInfo) -> list[tuple[FollowerChange, Follower]]:
        pairs = zip(self._changes, self._followers, strict=True)
        return [(change, follower) for change, follower in pairs if follower.accepts(table)]

    def _unusable(self, event: Event, error: BadInput) -> str:
        """Confine the table that an event which cannot be used names; have one that is not known loaded, if it is wanted then."""
        if event.db is None or event.table is None:
            raise error
        name = qualify(event.db, event.table)
        watched = self._states.get(name)
        if self._states.is_waiting(name):
            if self._begun(name, event.event_id) is not None:
                self._states.request_load(self._txn, name, "unsure")  # what is staged lacks it
            return "loading"
        if watched is None:
            self._states.request_load(self._txn, name, "changed")
            return OUT_OF_SCOPE
        if event.event_id > watched.as_of and watched.code is None:
            self._states.quarantine(self._txn, name, error)
            self._observer.table_quarantined(error.code)
        return "quarantined"


def _carries(watched: WatchedTable, event_id: int, table: TableInfo) -> bool:
    """Whether what is known of a table is all that its new name needs."""
    return watched.code is None and event_id > watched.until and watched.columns == table.columns


def _is_own(event: TableAltered, watched: WatchedTable) -> bool:
    """Whether this is the event of our own publishing: the one that set the event id which was written."""
    if watched.published is None:
        return False
    before, after = event.before.value.parameters or {}, event.after.value.parameters or {}
    return before.get(APPLIED_EVENT) != after.get(APPLIED_EVENT) == watched.published
