"""Loading from the source: first which tables there are, then one table after another, each in a transaction of its own.

The snapshot protocol (DESIGN §5): the newest event id is taken before anything is read, and events from there on are applied
over what was read. Every table carries its own such id, so a table can be loaded at any time, loading goes on after a crash
where it was, and events flow meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.catalog.seen import TableSeen, partition_named, partition_seen, table_seen
from handlers.catalog.watching import Watched
from handlers.failpoints import failpoint
from state.errors import BadInput, Inconsistent, NotFound, Refused


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from handlers.catalog.follower import Follower, FollowerChange
    from handlers.catalog.observer import Observer
    from handlers.catalog.seen import PartitionSeen
    from handlers.catalog.watching import WatchList
    from handlers.metastore import Metastore
    from state.store import Store, Transaction


TABLES_BATCH: Final = 200
FROM_PARTITIONS: Final = frozenset({"unsure", "asked"})
"""Reasons for which a table's own properties are not believed."""


class Loader:
    """Reads tables of one source into the followers; used by one thread."""

    def __init__(
        self,
        source: Metastore,
        store: Store,
        watch: WatchList,
        followers: Sequence[Follower],
        observer: Observer,
    ) -> None:
        self._source = source
        self._store = store
        self._watch = watch
        self._followers = followers
        self._observer = observer

    def survey(self, txn: Transaction) -> None:
        """Look at every table of the source: have those that are wanted and not watched loaded, forget those that are not."""
        changes = [follower.change(txn) for follower in self._followers]
        wanted = set()
        for table in self._tables():
            if not any(follower.wants(table) for follower in self._followers):
                continue
            wanted.add(table.name)
            if self._watch.get(table.name) is None:
                self._watch.want(txn, table.name, "snapshot")
                continue
            for change in changes:
                change.altered(table)
        for name in {*self._watch.watched(), *self._watch.waiting()} - wanted:
            self._watch.forget(txn, name)
            for change in changes:
                change.forgotten(name)
        for name in {name for change in changes for name in change.unsure}:
            self._watch.want(txn, name, "changed")

    def load_next(self) -> bool:
        """Load one table that waits; False where none does. Raises Transient."""
        waiting = self._watch.next_load()
        if waiting is None:
            return False
        self.load(*waiting)
        return True

    def load(self, name: str, reason: str) -> None:
        """Load a table; one that the source refuses to show, or whose content makes no sense, is quarantined.

        Raises Transient, and then nothing has changed.
        """
        try:
            self._load(name, reason)
        except NotFound:
            self._gone(name)
        except (Refused, BadInput, Inconsistent) as error:
            with self._store.transaction() as txn:
                self._watch.settled(txn, name)
                self._watch.confine(txn, name, error)
            self._observer.table_quarantined(error.code)
        else:
            self._observer.table_loaded(reason)

    def _load(self, name: str, reason: str) -> None:
        as_of = self._source.current_event_id()
        db, _, table_part = name.partition(".")
        table = table_seen(self._source.get_table(db, table_part))
        if not any(follower.wants(table) for follower in self._followers):
            raise NotFound("the table is not wanted any more", table=name)
        before = self._watch.get(name)
        failpoint("catalog.listed")
        wanting = [follower for follower in self._followers if follower.wants(table)]
        with self._store.transaction() as txn:
            changes = [follower.change(txn) for follower in wanting]
            self._fill(table, changes, believed=reason not in FROM_PARTITIONS)
            published = before.published if before is not None else None
            until = self._source.current_event_id()
            self._watch.put(txn, name, Watched(table.columns, as_of, until, published=published))
            self._watch.settled(txn, name)
            failpoint("catalog.loaded")
        for change in changes:
            change.publish()

    def _fill(self, table: TableSeen, changes: Sequence[FollowerChange], *, believed: bool) -> None:
        """Give a table's content to the followers; it is listed once, and streamed where one alone wants it."""
        listing = [change for change in changes if not (believed and change.loaded_cheaply(table))]
        if not listing:
            return
        wanting = (follower for follower in self._followers if follower.wants(table))
        found = listed(self._source, table, by_name=all(one.names_suffice(table) for one in wanting))
        kept = found if len(listing) == 1 else list(found)
        for change in listing:
            change.loaded(table, kept)

    def _gone(self, name: str) -> None:
        """Forget a table that is not there: the event of its end, or of its new name, is still to come or was applied."""
        with self._store.transaction() as txn:
            changes = [follower.change(txn) for follower in self._followers]
            self._watch.forget(txn, name)
            for change in changes:
                change.forgotten(name)
        for change in changes:
            change.publish()

    def _tables(self) -> Iterator[TableSeen]:
        for db in self._source.database_names():
            names = self._source.table_names(db)
            for start in range(0, len(names), TABLES_BATCH):
                for table in self._source.get_tables(db, names[start : start + TABLES_BATCH]):
                    yield table_seen(table)


def listed(source: Metastore, table: TableSeen, *, by_name: bool) -> Iterator[PartitionSeen]:
    """Yield all partitions of a table: by their names, in one call, or whole, in batches. Raises Transient, MalformedEvent."""
    if by_name:
        names = source.partition_names(table.db, table.table)
        return (partition_named(table.columns, name) for name in names)
    found = source.all_partitions(table.db, table.table)
    return (partition_seen(table.columns, partition) for partition in found)
