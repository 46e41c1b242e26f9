"""The write events of commits, for a source whose metastore has no call for them (before Hive 4).

When the relay reads a commit, it makes the write events itself, in the same form as those of other sources,
so that readers need no distinction. The events between the allocations and the commit of a transaction show
which tables and partitions it may have written (``candidate_events``). INSERT events, and listings of the
directories of its write ids, show the files (``one_write``). The relay makes the listings for the commits of
a batch in parallel.

If files may be missing, the part says that the table's files are incomplete, and why, and replicas load the
table. The same holds for databases that no policy of this daemon replicates, whose directories the relay does
not list, and for a commit whose allocations the relay may have missed.

If a file system or a metastore fails, the relay waits and repeats the listing, until at least
``ATTEMPTS_MIN`` attempts within ``PATIENCE_S`` have failed. Then it reports only this write as incomplete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooSlow
from functools import partial
from typing import Final, TypeAlias, TypeVar

import structlog

from daemon.sources.listing.candidate_events import observe
from daemon.sources.listing.ended_transactions import EndedTransactions
from daemon.sources.listing.one_write import (
    ListingTools,
    PreparedWrite,
    Scans,
    WrittenPart,
    list_partitions,
    prepare,
)
from daemon.sources.listing.unnamed_files import Sample
from daemon.sources.log_connections import Connect, LogConnections
from daemon.sources.write_events import CommitWrites, parse_commit
from handlers.files.filesystems import FileSystems
from handlers.files.paths import AllowedRoots
from handlers.structs.notifications import NotificationEvent, WriteEventInfo
from state.errors import FilesUnavailable, Transient
from state.pieces import in_pieces
from state.transactions.open_candidates import CandidateWrite, OpenCandidates


log = structlog.get_logger(__name__)
T = TypeVar("T")

ATTEMPTS_MIN: Final = 5
PATIENCE_S: Final = 60.0
SAMPLE_EVERY: Final = 50
"""One of this many writes is checked for partitions that no event names."""
LISTED_AT_ONCE: Final = 50
"""Partitions to list one after the other, and to check with one call."""
THREADS: Final = 4
BEAT_S: Final = 1.0
HANG_S: Final = 60.0
"""A step of a listing that takes longer counts as a failure of the file system."""
MISSED: Final = "the transaction began before the relay observed the log"
NOT_REPLICATED: Final = "no policy of the relay's daemon replicates this database"
UNNAMED: Final = (
    "a program writes into partitions without events, and events of earlier writes may be missing"
)

Listing: TypeAlias = "Future[list[WrittenPart]] | list[WrittenPart]"


class ListedWrites:
    """Finds the write events of commits. Use it from one thread only; it starts further threads."""

    def __init__(
        self,
        databases: Container[str],
        file_systems: FileSystems,
        allowed: AllowedRoots,
        connect: Connect,
        *,
        scan_tables: Container[str] = (),
        beat: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``databases`` are the databases that policies replicate. Reads files only below the directories
        ``allowed``.

        ``scan_tables`` are tables (``db.tbl``) into which programs write without events.
        """
        self._databases = databases
        self._tools = ListingTools(file_systems, allowed)
        self._scan_tables = scan_tables
        self._sample: Sample | None = None
        self._commits = 0
        self._beat = beat
        self._clock = clock
        self._candidates = OpenCandidates()
        self._pool = LogConnections(connect, THREADS, "relay-listing")
        self._ended = EndedTransactions(self._pool, clock)
        self._troubles: dict[tuple[str, int], tuple[float, int]] = {}
        """Time of the first failed listing of a write, and the number of failures since."""
        self.event_id: int | None = None
        """The last event observed; None before the first."""
        self.listed = 0
        """Partitions and tables listed."""
        self.unlisted = 0
        """Partitions and tables whose files may be incomplete, so that replicas load the table."""
        self.found_by_scan: set[str] = set()
        """Tables with partitions that only a scan has found; the relay scans them at each commit from then
        on.
        """

    @property
    def tables_to_scan(self) -> tuple[str, ...]:
        """The tables that should be in ``scan_tables``."""
        return tuple(sorted(table for table in self.found_by_scan if table not in self._scan_tables))

    @property
    def knows_all(self) -> bool:
        """Whether the relay knows the allocations of all open transactions."""
        return self._candidates.knows_all

    @property
    def first_event_id(self) -> int | None:
        """The id of the first event to read again after a restart; None if no transaction is open."""
        return self._candidates.first_event_id

    def start_after(self, event_id: int, *, knows_all: bool = False) -> None:
        """Forget all facts; the next event to observe is the one after ``event_id``.

        ``knows_all`` says that no open transaction has allocated a write id up to that event.
        """
        self._candidates = OpenCandidates(knows_all=knows_all)
        self._tools.others.clear()
        self.event_id = event_id

    def observe(self, event: NotificationEvent) -> None:
        """Record the event's facts about open transactions."""
        observe(event, self._candidates, self._databases)
        self._tools.others.observe(event)
        self.event_id = event.eventId
        self._ended.forget(self._candidates, event.eventId)

    def pass_over(self, event: NotificationEvent) -> None:
        """Record the event's facts about open transactions. If it commits one, forget that one without a
        listing.
        """
        self.observe(event)
        if (commit := parse_commit(event)) is not None:
            self._candidates.end(commit.txn_id)

    def miss(self, event_id: int) -> None:
        """Record an unreadable event, which may concern any table."""
        self._candidates.miss()
        self._tools.others.clear()
        self.event_id = event_id

    def end(self, txn_id: int) -> Sequence[CandidateWrite] | None:
        """Return the writes of the transaction that the last observed event has committed, and forget the
        transaction; None if some writes may be unknown.
        """
        return self._candidates.end(txn_id)

    def complete(self, commits: Sequence[tuple[CommitWrites, Sequence[CandidateWrite]]]) -> None:
        """Add the write events of commits to their parts. Raises Transient."""
        known = frozenset(self.found_by_scan)
        prepared = [
            (writes, write, self._prepare(write)) for writes, candidates in commits for write in candidates
        ]
        listings = [(writes, write, list(self._start(write, each))) for writes, write, each in prepared]
        for writes, write, futures in listings:
            parts = self._collect(write, futures)
            if write.table in self.found_by_scan - known:  # the scan may have missed this commit
                parts = self._collect(write, list(self._start(write, self._prepare(write))))
            self._troubles.pop((write.table, write.write_id), None)
            self._add(writes, write, self._note_scanned(write, parts))

    def _collect(self, write: CandidateWrite, futures: Sequence[Listing]) -> list[WrittenPart]:
        return [part for future in futures for part in self._wait(write, future)]

    def close(self) -> None:
        """End the threads, without waiting for a thread that hangs."""
        self._pool.close(wait=False)

    def _prepare(self, write: CandidateWrite) -> Future[PreparedWrite] | PreparedWrite:
        if write.table.partition(".")[0] not in self._databases:
            return PreparedWrite(write, incomplete=NOT_REPLICATED)
        for candidate in write.partitions.values():
            _, checksum, cm_root, *_ = (*next(iter(candidate.entries.values()), "").split("#"), "", "", "")
            if checksum and cm_root:
                self._sample = Sample(checksum, cm_root)
        return self._pool.submit(
            partial(prepare, write=write, tools=self._tools, scans=self._choose_scans(write))
        )

    def _choose_scans(self, write: CandidateWrite) -> Scans:
        """Return when to look for partitions that no event names: at each commit for tables that need it, and
        sometimes for other tables, to find further programs that log no events.
        """
        self._commits += 1
        if write.table in self._scan_tables or write.table in self.found_by_scan:
            return "always"
        return "suspected" if self._commits % SAMPLE_EVERY else "check"

    def _start(
        self, write: CandidateWrite, prepared: Future[PreparedWrite] | PreparedWrite
    ) -> Iterator[Listing]:
        """Start the listings of a write."""
        if not isinstance(prepared, PreparedWrite):
            try:
                prepared = self._await(prepared)
            except Transient as error:
                yield self._give_up_or_raise(write, error)
                return
        if prepared.incomplete is not None:
            yield [WrittenPart("", incomplete=prepared.incomplete)]
            return
        names = sorted(prepared.candidates)
        for some in in_pieces(names, LISTED_AT_ONCE):
            step = partial(
                list_partitions,
                prepared=prepared,
                names=some,
                tools=self._tools,
                sample=self._sample,
            )
            yield self._pool.submit(step)

    def _wait(self, write: CandidateWrite, future: Listing) -> list[WrittenPart]:
        if isinstance(future, list):
            return future
        try:
            return self._await(future)
        except Transient as error:
            return self._give_up_or_raise(write, error)

    def _await(self, future: Future[T]) -> T:
        """Return the result of a listing; raise FilesUnavailable if it takes longer than ``HANG_S``."""
        begin_s = self._clock()
        while True:
            try:
                return future.result(BEAT_S)
            except TooSlow as error:
                self._beat()
                if self._clock() - begin_s > HANG_S:
                    raise FilesUnavailable(
                        "a directory of the source cannot be listed in time", within_s=HANG_S
                    ) from error

    def _give_up_or_raise(self, write: CandidateWrite, error: Transient) -> list[WrittenPart]:
        """Return an incomplete write if enough attempts have failed; otherwise raise ``error``."""
        key = (write.table, write.write_id)
        since_s, attempts = self._troubles.get(key, (self._clock(), 0))
        self._troubles[key] = (since_s, attempts + 1)
        if attempts + 1 < ATTEMPTS_MIN or self._clock() - since_s < PATIENCE_S:
            raise error
        return [WrittenPart("", incomplete=f"[{error.code}] {error.message}")]

    def _add(self, writes: CommitWrites, write: CandidateWrite, parts: Sequence[WrittenPart]) -> None:
        db, _, table = write.table.partition(".")
        for part in parts:
            self.listed += part.incomplete is None
            if part.incomplete is not None and part.incomplete != NOT_REPLICATED:
                self.unlisted += 1
                log.warning(
                    "the files of a write may be incomplete; replicas load the table",
                    table=write.table,
                    partition=part.partition,
                    write_id=write.write_id,
                    reason=part.incomplete,
                )
            info = WriteEventInfo(
                writeId=write.write_id,
                database=db,
                table=table,
                files="]".join(part.entries),
                partition=part.partition,
            )
            writes.parts.add_listed(info, incomplete=part.incomplete)

    def _note_scanned(self, write: CandidateWrite, parts: list[WrittenPart]) -> list[WrittenPart]:
        """Return the parts. If no event names the partition of one, the relay scans the table at each commit
        from now on. If only a sample check has found the partition, replicas load the table, because earlier
        partitions may be missing.
        """
        scanned = [part.partition for part in parts if part.is_scanned]
        if not scanned or write.table in self.found_by_scan or write.table in self._scan_tables:
            return parts
        self.found_by_scan.add(write.table)
        log.warning(
            "a program writes into a table without events, such as a stream; its partitions are found by the "
            "times of their directories from now on. Add it to relay.scan_tables",
            table=write.table,
            partition=scanned[0],
            write_id=write.write_id,
        )
        if any(candidate.is_altered for candidate in write.partitions.values()):
            return [WrittenPart("", incomplete=UNNAMED)]
        return parts
