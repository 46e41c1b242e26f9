"""Loading from the source: first which tables there are, then one table after another, each in a transaction of its own.

The snapshot protocol (DESIGN §5): the newest event id is taken before anything is read, and events from there on are applied
over what was read. Every table carries its own such id, so a table can be loaded at any time, loading goes on after a crash
where it was, and events flow meanwhile.

Where a follower takes tables in pieces, a table is loaded by several calls, each with a transaction of its own: the names are listed
once and the partitions of a piece of them fetched. The others get their listing with the last piece. All that is listed is
listed after the id was taken, and every event after that id reaches either what is staged or (those that are still to come
then) everybody, so it makes no difference when.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from handlers.catalog.following.ports import open_changes
from handlers.catalog.following.table_info import (
    PartitionInfo,
    TableInfo,
    describe_partition,
    describe_table,
    parse_partition_name,
)
from handlers.catalog.following.table_states import LoadProgress, WatchedTable
from handlers.failpoints import failpoint
from state.errors import BadInput, Inconsistent, NotFound, Refused


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from handlers.catalog.following.ports import Follower, FollowerChange, Observer
    from handlers.catalog.following.table_states import TableStates
    from handlers.metastore.client import Metastore
    from state.store import Store, Transaction


TABLES_BATCH: Final = 200
PIECE: Final = 500
"""Partitions that are fetched by one call and staged by one transaction: some 0.2 s."""
FROM_PARTITIONS: Final = frozenset({"unsure", "asked"})
"""Reasons for which a table's own properties are not believed."""


class Loader:
    """Reads tables of one source into the followers; used by one thread."""

    def __init__(
        self,
        source: Metastore,
        store: Store,
        states: TableStates,
        followers: Sequence[Follower],
        observer: Observer,
    ) -> None:
        self._source = source
        self._store = store
        self._states = states
        self._followers = followers
        self._observer = observer
        self._listing: tuple[str, list[str]] = ("", [])
        """The table that is being loaded in pieces, with the names of its partitions in order."""

    def survey(self, txn: Transaction, changes: Sequence[FollowerChange]) -> None:
        """Look at every table of the source: have those that are wanted and not watched loaded, forget those that are not."""
        wanted = set()
        for table in self._tables():
            if not any(follower.accepts(table) for follower in self._followers):
                continue
            wanted.add(table.name)
            if self._states.get(table.name) is None:
                self._states.request_load(txn, table.name, "snapshot")
                continue
            for change in changes:
                change.alter_table(table)
        for name in {*self._states.watched(), *self._states.waiting()} - wanted:
            self._states.forget(txn, name)
            for change in changes:
                change.forget_table(name)
        for name in {name for change in changes for name in change.doubtful}:
            self._states.request_load(txn, name, "changed")

    def load_next(self) -> bool:
        """Load one table that waits, or a piece of it; False where none does. Raises Transient."""
        waiting = self._states.next_load()
        if waiting is None:
            return False
        self.load(*waiting)
        return True

    def load(self, name: str, reason: str) -> bool:
        """Load a table or a piece of it; True where that was all.

        One that the source refuses to show, or whose content makes no sense, is quarantined. Raises Transient, and then
        nothing has changed.
        """
        try:
            ended = self._load(name, reason)
        except NotFound:
            self._gone(name)
            return True
        except (Refused, BadInput, Inconsistent) as error:
            with self._store.transaction() as txn:
                self._states.finish_load(txn, name)
                self._states.quarantine(txn, name, error)
            self._observer.table_quarantined(error.code)
            return True
        if ended:
            self._observer.table_loaded(reason)
        return ended

    def _load(self, name: str, reason: str) -> bool:
        begun = self._states.progress(name)
        as_of = self._source.current_event_id() if begun is None else begun.as_of
        table = self._table(name)
        wanting = [follower for follower in self._followers if follower.accepts(table)]
        failpoint("catalog.listed")
        piece = self._piece(table, begun, as_of) if any(one.loads_in_pieces for one in wanting) else None
        others = (
            []
            if piece is not None and not piece.is_last
            else [one for one in wanting if not one.loads_in_pieces]
        )
        listing = self._listed_for(table, others, streams=piece is None)
        with open_changes(self._store, wanting) as (txn, changes):
            if piece is not None and not self._staged(txn, table, piece, changes, reason):
                return False
            rest = [change for change in changes if change.staging is None]
            _fill(table, rest, listing, believed=reason not in FROM_PARTITIONS)
            self._loaded(txn, table, as_of)
            failpoint("catalog.loaded")
        return True

    def _table(self, name: str) -> TableInfo:
        db, _, table_part = name.partition(".")
        table = describe_table(self._source.get_table(db, table_part))
        if not any(follower.accepts(table) for follower in self._followers):
            raise NotFound("the table is not wanted any more", table=name)
        return table

    def _piece(self, table: TableInfo, begun: LoadProgress | None, as_of: int) -> _Piece:
        """Fetch what comes next of a table."""
        if begun is None or self._listing[0] != table.name:
            names = sorted(self._source.partition_names(table.db, table.table))
            self._listing = (table.name, names)
        names = self._listing[1]
        before = begun or LoadProgress(as_of, table.columns)
        start = bisect_right(names, before.last) if before.last else 0
        chosen = names[start : start + PIECE]
        found = self._source.get_partitions(table.db, table.table, chosen) if chosen else []
        after = replace(
            before,
            last=chosen[-1] if chosen else before.last,
            done=before.done + len(found),
            total=len(names),
        )
        partitions = [describe_partition(table.columns, partition) for partition in found]
        return _Piece(partitions, after, is_first=begun is None, is_last=start + PIECE >= len(names))

    def _staged(
        self,
        txn: Transaction,
        table: TableInfo,
        piece: _Piece,
        changes: Sequence[FollowerChange],
        reason: str,
    ) -> bool:
        """Stage a piece; True where it was the last. A table that changed meanwhile is begun again."""
        staging = [change.staging for change in changes if change.staging is not None]
        if not piece.is_first and not all(one.fits(table) for one in staging):
            self._states.request_load(txn, table.name, reason)
            return False
        for one in staging:
            if piece.is_first:
                one.begin(table)
            one.stage(table.name, piece.partitions)
            if piece.is_last:
                one.finish(table)
        self._states.save_progress(txn, table.name, piece.progress)
        failpoint("catalog.staged")
        return piece.is_last

    def _loaded(self, txn: Transaction, table: TableInfo, as_of: int) -> None:
        before = self._states.get(table.name)
        published = before.published if before is not None else None
        until = self._source.current_event_id()
        self._states.put(txn, table.name, WatchedTable(table.columns, as_of, until, published=published))
        self._states.finish_load(txn, table.name)

    def _listed_for(
        self, table: TableInfo, followers: Sequence[Follower], *, streams: bool
    ) -> Iterable[PartitionInfo]:
        """Return all partitions for followers that take them at once.

        Where readers wait for the end of the transaction, nothing is asked for within it: what is listed is kept, without the
        partitions themselves.
        """
        if not followers:
            return ()
        found = list_partitions(
            self._source, table, by_name=all(one.names_suffice(table) for one in followers)
        )
        if streams and len(followers) == 1:
            return found
        return [PartitionInfo(one.spec, one.parameters, None) for one in found]

    def _gone(self, name: str) -> None:
        """Forget a table that is not there: the event of its end, or of its new name, is still to come or was applied."""
        with open_changes(self._store, self._followers) as (txn, changes):
            self._states.forget(txn, name)
            for change in changes:
                change.forget_table(name)

    def _tables(self) -> Iterator[TableInfo]:
        for db in self._source.database_names():
            names = self._source.table_names(db)
            for start in range(0, len(names), TABLES_BATCH):
                for table in self._source.get_tables(db, names[start : start + TABLES_BATCH]):
                    yield describe_table(table)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some partitions of a table, and how far it is loaded with them."""

    partitions: list[PartitionInfo]
    progress: LoadProgress
    is_first: bool
    is_last: bool


def _fill(
    table: TableInfo, changes: Sequence[FollowerChange], listing: Iterable[PartitionInfo], *, believed: bool
) -> None:
    """Give a table's content to those who take it at once."""
    for change in changes:
        if not (believed and change.load_from_properties(table)):
            change.load_partitions(table, listing)


def list_partitions(source: Metastore, table: TableInfo, *, by_name: bool) -> Iterator[PartitionInfo]:
    """Yield all partitions of a table: by their names, in one call, or whole, in batches. Raises Transient, MalformedEvent."""
    if by_name:
        for name in source.partition_names(table.db, table.table):
            yield parse_partition_name(table.columns, name)
    else:
        for partition in source.all_partitions(table.db, table.table):
            yield describe_partition(table.columns, partition)
