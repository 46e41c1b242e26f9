"""Loads tables from the source: first a survey of all tables, then one table after another, each in its own transaction.

Snapshot protocol for one table:

1. Read the newest event id (``as_of``).
2. List the table's partitions.
3. Store them together with ``as_of``; from then on, apply every later event on top.

Every table has its own ``as_of``. So a table can be loaded at any time, loading continues after a crash, and events are applied
meanwhile.

Where a follower loads in pieces, steps 2 and 3 repeat for each piece, with a transaction each: the names are listed once, and the
partitions of one piece are fetched. Other followers receive their listing with the last piece. Everything is listed after
``as_of``, and every later event reaches the staged content or, after the last piece, all followers. So the order of pieces and
events makes no difference.

A table whose listing the metastore fails to serve (an internal error, or no answer in time) is postponed, and the others are loaded.
Tries of such tables take at most a tenth of the time. If several tables in a row fail, or the metastore does not answer at all, all
loads pause for a while. Events are applied meanwhile.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from handlers.catalog.following.ports import open_changes
from handlers.catalog.following.table_info import (
    PartitionInfo,
    TableInfo,
    describe_partition,
    describe_table,
    parse_partition_name,
    qualify,
)
from handlers.catalog.following.table_state import (
    FROM_PARTITIONS,
    PAUSE_MAX_S,
    PAUSE_SHARE,
    KnownTable,
    LoadProgress,
)
from handlers.failpoints import failpoint
from state.errors import (
    AmbiguousCall,
    BadInput,
    Inconsistent,
    MetastoreUnavailable,
    NotFound,
    Refused,
    ServerFault,
)


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from handlers.catalog.following.ports import Follower, FollowerChange, Observer
    from handlers.catalog.following.table_states import TableStates
    from handlers.metastore.client import Metastore
    from state.errors import TidelineError
    from state.store import Store, Transaction


TABLES_BATCH: Final = 200
PIECE: Final = 500
"""Partitions fetched by one call and staged by one transaction, at most."""
PIECE_MIN: Final = 20
PIECE_S: Final = 0.08
"""How long a piece should take at most; the next one is smaller or larger accordingly."""
LISTINGS_MAX: Final = 4
"""Listings kept in memory: tables that are loaded in pieces take turns, and each has one."""
FAILED: Final = (ServerFault, AmbiguousCall, MetastoreUnavailable)
"""The metastore did not serve a call, or not in time: the cause may be the table that the call is about."""
FAILURES_MAX: Final = 3
"""Failures in a row after which the cause is probably not in the tables."""
PAUSE_S: Final = 5.0
"""How long all loads pause, at least, if the cause is not in a table."""
Clock = Callable[[], float]


class Loader:
    """Reads tables of one source into the followers; used by one thread."""

    def __init__(
        self,
        source: Metastore,
        store: Store,
        states: TableStates,
        followers: Sequence[Follower],
        observer: Observer,
        clock: Clock = time.time,
    ) -> None:
        """``clock`` returns the Unix time."""
        self._clock = clock
        self._retries_from_s = self._loads_from_s = 0.0
        self._failures = 0
        """Failed loads since the last one that did not fail."""
        self._source = source
        self._store = store
        self._states = states
        self._followers = followers
        self._observer = observer
        self._listings: dict[str, list[str]] = {}
        """The tables that are loaded in pieces, with the names of their partitions in order."""
        self._piece = min(PIECE, 200)

    def survey(self, txn: Transaction, changes: Sequence[FollowerChange]) -> None:
        """Read every table of the source: request loads of newly accepted tables, forget those no longer accepted."""
        accepted = set()
        for table in self._fetch_tables():
            if isinstance(table, str):
                # It cannot be read now: the load decides whether it is followed.
                accepted.add(table)
                known = self._states.get(table)
                self._states.request_load(txn, table, "snapshot" if known is None else "changed")
                continue
            if not any(follower.accepts(table) for follower in self._followers):
                continue
            accepted.add(table.name)
            if self._states.get(table.name) is None:
                self._states.request_load(txn, table.name, "snapshot")
                continue
            for change in changes:
                change.alter_table(table)
        for name in {*self._states.known(), *self._states.waiting()} - accepted:
            self._states.forget(txn, name)
            for change in changes:
                change.forget_table(name)
        for name in {name for change in changes for name in change.doubtful}:
            self._states.request_load(txn, name, "changed")

    def load_next(self) -> bool:
        """Load one waiting table, or a piece of it; return False where none is due.

        A load that the metastore fails to serve is postponed. Raises Transient if the store fails.
        """
        began_s = self._clock()
        if _is_paused(self._loads_from_s, began_s):
            return False
        waiting = self._states.next_load(began_s, failed=not _is_paused(self._retries_from_s, began_s))
        if waiting is None:
            return False
        try:
            if not self.load(*waiting):
                self._states.rotate(waiting[0])
        except FAILED as error:
            self._handle_failure(waiting[0], error, began_s)
        else:
            self._failures = 0
        return True

    def _handle_failure(self, name: str, error: TidelineError, began_s: float) -> None:
        """Postpone the table, or pause all loads where the metastore does not answer a trivial call either."""
        took_s = max(0.0, self._clock() - began_s)
        pause_s = min(max(PAUSE_S, took_s), PAUSE_MAX_S)
        try:
            self._source.current_event_id()
        except FAILED as outage:
            self._loads_from_s = self._clock() + pause_s
            self._observer.load_failed(name, outage, pause_s)
        else:
            self._postpone(name, error, took_s)
            self._failures += 1
            if self._failures >= FAILURES_MAX:
                self._loads_from_s = self._clock() + pause_s

    def _postpone(self, name: str, error: TidelineError, took_s: float) -> None:
        now_s = self._clock()
        with self._store.transaction() as txn:
            postponed = self._states.postpone_load(txn, name, error, took_s, now_s)
        self._observer.load_failed(name, error, postponed.next_s - now_s)
        self._retries_from_s = now_s + min(PAUSE_SHARE * took_s, PAUSE_MAX_S)

    def load(self, name: str, reason: str) -> bool:
        """Load a table or a piece of it; return True where it is complete.

        A table that the source refuses to return, or whose content is inconsistent, is quarantined. Raises Transient; then
        nothing has changed.
        """
        began_s = time.perf_counter()
        try:
            finished = self._load_table(name, reason)
        except NotFound:
            self._listings.pop(name, None)
            self._forget_missing(name)
            return True
        except (Refused, BadInput, Inconsistent) as error:
            self._listings.pop(name, None)
            with self._store.transaction() as txn:
                self._states.finish_load(txn, name)
                self._states.quarantine(txn, name, error)
            self._observer.table_quarantined(name, error)
            return True
        if finished:
            self._listings.pop(name, None)
            self._observer.table_loaded(reason)
        elif self._states.progress(name) is not None:
            self._adapt_piece(time.perf_counter() - began_s)
        return finished

    def _adapt_piece(self, took_s: float) -> None:
        """Change the size of pieces towards ``PIECE_S``, by at most a factor of two."""
        factor = max(0.5, min(2.0, PIECE_S / max(took_s, 1e-6)))
        self._piece = max(min(PIECE, PIECE_MIN), min(PIECE, int(self._piece * factor)))

    def _load_table(self, name: str, reason: str) -> bool:
        progress = self._states.progress(name)
        # Step 1: before anything of the table is read.
        as_of = self._source.current_event_id() if progress is None else progress.as_of
        table = self._fetch_table(name)
        accepting = [follower for follower in self._followers if follower.accepts(table)]
        failpoint("catalog.listed")
        # Step 2: the next piece, and the listing of other followers where the load completes.
        piece = (
            self._fetch_piece(table, progress, as_of)
            if any(one.loads_in_pieces for one in accepting)
            else None
        )
        others = (
            []
            if piece is not None and not piece.is_last
            else [one for one in accepting if not one.loads_in_pieces]
        )
        streams = piece is None and len(others) == 1
        listing = self._list_for(table, others, streams=streams)
        until = None if streams else self._source.current_event_id()
        # Step 3: one transaction. The source is read in it only before anything is changed in memory.
        with open_changes(self._store, accepting) as (txn, changes):
            if piece is not None and not self._stage_piece(txn, table, piece, changes, reason):
                return False
            rest = [change for change in changes if change.staging is None]
            _fill(table, rest, listing, trusted=reason not in FROM_PARTITIONS)
            self._record_loaded(
                txn, table, as_of, self._source.current_event_id() if until is None else until
            )
            failpoint("catalog.loaded")
        return True

    def _fetch_table(self, name: str) -> TableInfo:
        db, _, table_part = name.partition(".")
        table = describe_table(self._source.get_table(db, table_part))
        if not any(follower.accepts(table) for follower in self._followers):
            raise NotFound("the table is no longer followed", table=name)
        return table

    def _fetch_piece(self, table: TableInfo, progress: LoadProgress | None, as_of: int) -> _Piece:
        """Fetch the next piece of a table."""
        if progress is None or table.name not in self._listings:
            self._listings.pop(table.name, None)
            while len(self._listings) >= LISTINGS_MAX:
                self._listings.pop(next(iter(self._listings)))
            self._listings[table.name] = sorted(self._source.partition_names(table.db, table.table))
        names = self._listings[table.name]
        before = progress or LoadProgress(as_of, table.columns)
        start = bisect_right(names, before.last) if before.last else 0
        size = min(self._piece, PIECE)
        chosen = names[start : start + size]
        found = self._source.get_partitions(table.db, table.table, chosen) if chosen else []
        after = replace(
            before,
            last=chosen[-1] if chosen else before.last,
            done=before.done + len(found),
            total=len(names),
        )
        partitions = [describe_partition(table.columns, partition) for partition in found]
        return _Piece(partitions, after, is_first=progress is None, is_last=start + size >= len(names))

    def _stage_piece(
        self,
        txn: Transaction,
        table: TableInfo,
        piece: _Piece,
        changes: Sequence[FollowerChange],
        reason: str,
    ) -> bool:
        """Stage a piece; return True for the last one. A table that changed meanwhile is loaded from its beginning."""
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

    def _record_loaded(self, txn: Transaction, table: TableInfo, as_of: int, until: int) -> None:
        before = self._states.get(table.name)
        published = before.published if before is not None else None
        self._states.put(txn, table.name, KnownTable(table.columns, as_of, until, published=published))
        self._states.finish_load(txn, table.name)

    def _list_for(
        self, table: TableInfo, followers: Sequence[Follower], *, streams: bool
    ) -> Iterable[PartitionInfo]:
        """Return all partitions, for followers that load a table at once.

        A single follower without readers waiting for the transaction receives a stream. Otherwise the listing is read before
        the transaction and kept in memory, without the partitions themselves.
        """
        if not followers:
            return ()
        found = list_partitions(
            self._source, table, by_name=all(one.names_suffice(table) for one in followers)
        )
        if streams:
            return found
        return [PartitionInfo(one.spec, one.parameters, None) for one in found]

    def _forget_missing(self, name: str) -> None:
        """Forget a table that does not exist: the event that drops or renames it is still to come or was applied."""
        with open_changes(self._store, self._followers) as (txn, changes):
            self._states.forget(txn, name)
            for change in changes:
                change.forget_table(name)

    def _fetch_tables(self) -> Iterator[TableInfo | str]:
        """Yield all tables; of a batch that the metastore fails to return, only the names."""
        for db in self._source.database_names():
            names = self._source.table_names(db)
            for start in range(0, len(names), TABLES_BATCH):
                batch = names[start : start + TABLES_BATCH]
                try:
                    found = self._source.get_tables(db, batch)
                except FAILED:
                    yield from (qualify(db, name) for name in batch)
                else:
                    yield from map(describe_table, found)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some partitions of a table, and the load progress including them."""

    partitions: list[PartitionInfo]
    progress: LoadProgress
    is_first: bool
    is_last: bool


def _is_paused(until_s: float, now_s: float) -> bool:
    """Whether a pause lasts; not where the clock was set back by more than the longest one."""
    return now_s < until_s <= now_s + PAUSE_MAX_S


def _fill(
    table: TableInfo, changes: Sequence[FollowerChange], listing: Iterable[PartitionInfo], *, trusted: bool
) -> None:
    """Load a table's content into followers that load it at once."""
    for change in changes:
        if not (trusted and change.load_from_properties(table)):
            change.load_partitions(table, listing)


def list_partitions(source: Metastore, table: TableInfo, *, by_name: bool) -> Iterator[PartitionInfo]:
    """Yield all partitions of a table: by name in one call, or whole in batches. Raises Transient, MalformedEvent."""
    if by_name:
        for name in source.partition_names(table.db, table.table):
            yield parse_partition_name(table.columns, name)
    else:
        for partition in source.all_partitions(table.db, table.table):
            yield describe_partition(table.columns, partition)
