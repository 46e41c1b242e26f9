"""One batch of events: what each means for the tables that are watched, handed to the followers in one transaction.

Events of tables that nobody wants cost a look-up of the name. A table that waits to be loaded passes over its events: the
listing will hold what they did. What does not fit what is known (a rename of a table never seen, columns that changed) is not
guessed at: the table is loaded again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from handlers.catalog.seen import TableSeen, partition_seen, table_name, table_seen
from handlers.catalog.watching import Watched
from handlers.events import (
    DatabaseDropped,
    Event,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    TableAltered,
    TableCreated,
    TableDropped,
    Undecodable,
)
from state.errors import BadInput
from state.timelines.properties import APPLIED_EVENT


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.catalog.follower import Follower, FollowerChange
    from handlers.catalog.observer import Observer
    from handlers.catalog.watching import WatchList
    from state.store import Transaction


CATALOGS: Final = frozenset({None, "hive"})
"""The metastore's own catalog; tables of others (Spark's, federated ones) are not followed."""
_HANDLED: Final = (
    DatabaseDropped,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    TableAltered,
    TableCreated,
    TableDropped,
    Undecodable,
)
OUT_OF_SCOPE: Final = "out-of-scope"


class Batch:
    """The events of one transaction. ``publish`` after the commit."""

    def __init__(
        self, txn: Transaction, watch: WatchList, followers: Sequence[Follower], observer: Observer
    ) -> None:
        self._txn = txn
        self._watch = watch
        self._followers = followers
        self._observer = observer
        self._changes: list[FollowerChange] = [follower.change(txn) for follower in followers]

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
            for name in change.unsure:
                if self._watch.get(name) is not None:
                    self._watch.want(self._txn, name, "unsure")

    def publish(self) -> None:
        """Show what changed."""
        for change in self._changes:
            change.publish()

    def _applied(self, event: Event, db: str) -> str | None:
        match event:
            case DatabaseDropped():
                return self._database_dropped(db, event.event_id)
            case Undecodable():
                raise event.error
            case TableCreated():
                return self._created(event.event_id, table_seen(event.after.value))
            case TableAltered():
                return self._altered(event, table_name(db, event.table or ""))
            case TableDropped():
                return self._dropped(event.event_id, table_name(db, event.table or ""))
        name = table_name(db, event.table or "")
        watched = self._watch.get(name)
        reason = self._passed_over(name, watched, event.event_id)
        if reason is None and watched is not None:
            self._partitions(event, name, watched)
        return reason

    def _passed_over(self, name: str, watched: Watched | None, event_id: int) -> str | None:
        """Tell why an event about partitions does not count; None where it does."""
        if self._watch.is_waiting(name):
            return "loading"
        if watched is None:
            return OUT_OF_SCOPE
        if watched.code is not None:
            return "quarantined"
        return "in-snapshot" if event_id <= watched.as_of else None

    def _partitions(self, event: Event, name: str, watched: Watched) -> None:
        match event:
            case PartitionsAdded():
                for embedded in event.partitions:
                    seen = partition_seen(watched.columns, embedded.value)
                    for change in self._changes:
                        change.put(name, seen)
            case PartitionsAltered():
                self._partitions_altered(event, name, watched)
            case PartitionsDropped():
                for spec in event.specs:
                    for change in self._changes:
                        change.dropped(name, {column.lower(): value for column, value in spec.items()})

    def _partitions_altered(self, event: PartitionsAltered, name: str, watched: Watched) -> None:
        after = [partition_seen(watched.columns, embedded.value) for embedded in event.after]
        if event.before is not None and event.before.value.values != event.after[0].value.values:
            before = partition_seen(watched.columns, event.before.value)
            for change in self._changes:
                change.dropped(name, before.spec)
        for seen in after:
            for change in self._changes:
                change.put(name, seen)

    def _created(self, event_id: int, table: TableSeen) -> str | None:
        if self._is_ahead(table.name, event_id):
            return "in-snapshot"
        wanted = [change for change, _ in self._wanting(table)]
        if not wanted:
            return self._dropped(event_id, table.name)
        self._forget(table.name)
        self._watch.put(self._txn, table.name, Watched(table.columns, event_id))
        for change in wanted:
            change.created(table)
        return None

    def _altered(self, event: TableAltered, name: str) -> str | None:
        table = table_seen(event.after.value)
        if table.name != name:
            return self._renamed(event.event_id, name, table)
        watched = self._watch.get(name)
        if watched is None and not self._watch.is_waiting(name):
            return self._newly_wanted(table)
        reason = self._passed_over(name, watched, event.event_id)
        if reason is not None or watched is None:
            return reason
        if _is_own(event, watched):
            return "own"
        if not self._wanting(table):
            return self._dropped(event.event_id, name)
        if table.columns != watched.columns:
            self._watch.want(self._txn, name, "changed")
        for change, _ in self._wanting(table):
            change.altered(table)
        return None

    def _newly_wanted(self, table: TableSeen) -> str | None:
        if not self._wanting(table):
            return OUT_OF_SCOPE
        self._watch.want(self._txn, table.name, "changed")
        return None

    def _renamed(self, event_id: int, old: str, table: TableSeen) -> str | None:
        """Carry a table over to its new name, or have that loaded where what is known of the old one is not enough."""
        ahead = self._is_ahead(table.name, event_id)
        watched = None if self._is_ahead(old, event_id) else self._watch.get(old)
        waits = self._watch.is_waiting(old)
        wanting = self._wanting(table)
        if watched is not None and not waits and wanting and not ahead and _carries(watched, event_id, table):
            self._forget(table.name)
            for change, _ in wanting:
                change.renamed(old, table)
            self._watch.forget(self._txn, old)
            self._watch.put(self._txn, table.name, replace(watched, published=None))
            return None
        if watched is not None or waits:
            self._forget(old)
        if ahead:
            return "in-snapshot"
        if wanting:
            self._watch.want(self._txn, table.name, "changed")
            return None
        return self._dropped(event_id, table.name)

    def _dropped(self, event_id: int, name: str) -> str | None:
        if self._watch.get(name) is None and not self._watch.is_waiting(name):
            return OUT_OF_SCOPE
        if self._is_ahead(name, event_id):
            return "in-snapshot"
        self._forget(name)
        return None

    def _database_dropped(self, db: str, event_id: int) -> str | None:
        names = [name for name in self._watch.of_db(db) if not self._is_ahead(name, event_id)]
        for name in names:
            self._forget(name)
        return None if names else OUT_OF_SCOPE

    def _is_ahead(self, name: str, event_id: int) -> bool:
        """Whether a table was listed after the event had happened; one that waits to be listed is not."""
        watched = self._watch.get(name)
        return watched is not None and not self._watch.is_waiting(name) and event_id <= watched.as_of

    def _forget(self, name: str) -> None:
        self._watch.forget(self._txn, name)
        for change in self._changes:
            change.forgotten(name)

    def _wanting(self, table: TableSeen) -> list[tuple[FollowerChange, Follower]]:
        pairs = zip(self._changes, self._followers, strict=True)
        return [(change, follower) for change, follower in pairs if follower.wants(table)]

    def _unusable(self, event: Event, error: BadInput) -> str:
        """Confine the table that an event which cannot be used names; have one that is not known loaded, if it is wanted then."""
        if event.db is None or event.table is None:
            raise error
        name = table_name(event.db, event.table)
        watched = self._watch.get(name)
        if self._watch.is_waiting(name):
            return "loading"
        if watched is None:
            self._watch.want(self._txn, name, "changed")
            return OUT_OF_SCOPE
        if event.event_id > watched.as_of and watched.code is None:
            self._watch.confine(self._txn, name, error)
            self._observer.table_quarantined(error.code)
        return "quarantined"


def _carries(watched: Watched, event_id: int, table: TableSeen) -> bool:
    """Whether what is known of a table is all that its new name needs."""
    return watched.code is None and event_id > watched.until and watched.columns == table.columns


def _is_own(event: TableAltered, watched: Watched) -> bool:
    """Whether this is the event of our own publishing: the one that set the event id which was written."""
    if watched.published is None:
        return False
    before, after = event.before.value.parameters or {}, event.after.value.parameters or {}
    return before.get(APPLIED_EVENT) != after.get(APPLIED_EVENT) == watched.published
