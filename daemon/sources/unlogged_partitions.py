"""Lists the partitions that a transaction wrote without a write event, as soon as the relay reads the commit.

Hive logs write events for only the first of several static partitions of a multi-insert (reference:
hive-replication.md §0c.2). Only a listing of their directories finds the files of the others, and only until
a compaction has merged them. If a replica listed them at replay, that might be too late, so the relay does it
within a second of the commit, and adds them as further ``WRITE`` parts marked with ``"listed": true``. If a
partition has no such part, replay still lists it.

A file may be in the change manager when a replica copies it. There, its name is only its checksum, which Hive
records in write events. The relay therefore reads listed files of up to ``CHECKSUM_BYTES_MAX`` and records
their checksums in the form of the transaction's logged files. It records larger files without a checksum; if
such a file is removed before it is copied, it is lost.

A listing may fail, but must not delay the relay. Listings run in a separate thread. If one fails or takes
longer than ``TIMEOUT_S``, the relay abandons it, and lists nothing during the next ``PAUSE_S``. It lists at
most ``LISTED_MAX`` partitions of one commit. If a partition or its table was renamed since the write, the
relay leaves the partition to the replicas, because another one may have its directory and its write id by
now. The relay considers only tables with at least one write event of the transaction: ANALYZE and other
statements touch partitions under a write id without writing any files.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooSlow
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from daemon.config.replicated_databases import ReplicatedDatabases
from daemon.sources.listing.listed_writes import ListedWrites
from daemon.sources.touched_events import observe
from daemon.sources.write_events import parse_commit
from handlers.files.copying.checksums import new_digest_like
from handlers.files.filesystems import read_chunks
from handlers.files.listing import WriteListing, list_write
from handlers.files.paths import AllowedRoots, parse_location, to_target_subdir
from handlers.files.systems.schemes import open_file_systems
from handlers.replication.target.same_table import LoggedWrite
from handlers.structs.notifications import WriteEventInfo
from state.errors import TidelineError, Transient
from state.transactions.touched_partitions import TouchedPartitions


if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from daemon.config.model import Config
    from daemon.sources.log_connections import Connect
    from daemon.sources.write_events import CommitWrites
    from handlers.events import SourceFile
    from handlers.files.filesystems import FileSystems
    from handlers.structs.notifications import NotificationEvent


log = structlog.get_logger(__name__)

LISTED_MAX: Final = 1_000
CHECKSUM_BYTES_MAX: Final = 64 * 1024 * 1024
TIMEOUT_S: Final = 10.0
PAUSE_S: Final = 60.0


class UnloggedPartitions:
    """The partitions that open transactions touched, and their files. Use it from one thread only."""

    def __init__(
        self,
        databases: Container[str],
        file_systems: FileSystems,
        allowed: AllowedRoots,
        *,
        scan_tables: Container[str] = (),
        clock: Callable[[], float] = time.monotonic,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """``databases`` are the databases that policies replicate. Reads files only below the directories
        ``allowed``.

        ``scan_tables`` are for ``ListedWrites``.
        """
        self._scan_tables = scan_tables
        self._databases = databases
        self._file_systems = file_systems
        self._allowed = allowed
        self._clock = clock
        self._timeout_s = timeout_s
        self._touched = TouchedPartitions()
        self._pool: ThreadPoolExecutor | None = None
        self._running: Future[WriteListing] | None = None
        self._paused_until_s = 0.0
        self.found_by_scan: set[str] = set()
        """Tables that ``ListedWrites`` scans at each commit, although they are not in ``scan_tables``."""
        self.event_id: int | None = None
        """The last event observed; None before the first."""
        self.listed = 0
        """Partitions listed."""
        self.unlisted = 0
        """Partitions whose listing failed, so that replicas do it."""

    @property
    def tables_to_scan(self) -> tuple[str, ...]:
        """Always empty: the source reports write events, so it needs no scans."""
        return ()

    @property
    def knows_all(self) -> bool:
        """Always True: commits name the tables that they wrote into."""
        return True

    @property
    def first_event_id(self) -> int | None:
        """The id of the first event to read again after a restart; None if no transaction is open."""
        return self._touched.first_event_id

    def start_after(self, event_id: int, *, knows_all: bool = False) -> None:  # noqa: ARG002 - see below
        """Forget all facts; the next event to observe is the one after ``event_id``.

        ``knows_all`` matters for ``ListedWrites`` only.
        """
        self._touched = TouchedPartitions()
        self.event_id = event_id

    def miss(self, event_id: int) -> None:
        """Skip an unreadable event."""
        self.event_id = event_id

    def to_listed_writes(self, connect: Connect, beat: Callable[[], None]) -> ListedWrites:
        """Return a lister of all write events to use instead of this one, because the source reports none."""
        listed = ListedWrites(
            self._databases,
            self._file_systems,
            self._allowed,
            connect,
            scan_tables=self._scan_tables,
            beat=beat,
        )
        listed.found_by_scan = self.found_by_scan  # outlives a restart of the loop
        return listed

    def observe(self, event: NotificationEvent) -> None:
        """Record the event's facts about open transactions; for a commit, call ``complete`` as well."""
        observe(event, self._touched, self._databases)
        self.event_id = event.eventId

    def pass_over(self, event: NotificationEvent) -> None:
        """Record the event's facts about open transactions. If it commits one, forget that one without a
        listing.
        """
        self.observe(event)
        if (commit := parse_commit(event)) is not None:
            self._touched.end(commit.txn_id)

    def complete(
        self, writes: CommitWrites, select_same: Callable[[LoggedWrite, Iterable[str]], Container[str]]
    ) -> bool:
        """Add the files of unlogged partitions to a commit; return whether it found all of them.

        ``select_same`` returns the partitions that still have the same names at the source. It runs after the
        listing of their directories. Replicas have to find the files of the other partitions.
        """
        touched, event_id = self._touched.end(writes.commit.txn_id), self.event_id or 0
        logged = writes.parts.tables()
        complete = touched.complete and all(
            (f"{db}.{table}", write_id) in touched.partitions
            for db, table, write_id in logged
            if db in self._databases
        )  # an allocation may precede the first observed event
        room = LISTED_MAX
        for (table, write_id), partitions in touched.partitions.items():
            db, _, name = table.partition(".")
            if not partitions or (db, name, write_id) not in logged:
                continue
            missing = partitions.keys() - writes.parts.partitions(db, name)
            found = {
                partition: listing
                for partition in sorted(missing)[:room]
                if (listing := self._list(partitions[partition], write_id, writes.parts.sample)) is not None
            }
            if found:
                write = LoggedWrite(db, name, write_id, event_id, writes.parts.owner(db, name))
                same = select_same(write, found)
                found = {partition: listing for partition, listing in found.items() if partition in same}
            room -= len(found)
            self.listed += len(found)
            self.unlisted += len(missing) - len(found)
            complete = complete and len(found) == len(missing)
            for partition, listing in found.items():
                writes.parts.add_listed(_to_write_event(db, name, partition, write_id, listing))
        return complete

    def close(self) -> None:
        """End the thread once its listing has returned."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _list(self, location: str, write_id: int, sample: str) -> WriteListing | None:
        """List one partition; None if that is not possible now, or if files may have been removed."""
        if self._clock() < self._paused_until_s or (self._running is not None and not self._running.done()):
            return None
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="relay-listing")
        self._running = self._pool.submit(self._list_now, location, write_id, sample)
        try:
            listing = self._running.result(self._timeout_s)
        except (TidelineError, TooSlow) as error:
            if isinstance(error, Transient | TooSlow):
                self._paused_until_s = self._clock() + PAUSE_S
            log.warning(
                "the files of a partition without a write event cannot be listed; replicas will list them",
                location=location,
                write_id=write_id,
                problem=str(error) or f"no answer within {self._timeout_s:g} s",
            )
            return None
        return listing if listing.conclusive else None

    def _list_now(self, location: str, write_id: int, sample: str) -> WriteListing:
        """List a partition. ``sample`` is the entry of a logged file of the transaction.

        Runs in the thread of listings.
        """
        listing = list_write(self._file_systems, location, write_id, allowed=self._allowed)
        _, checksum, cm_root, *_ = (*sample.split("#"), "", "", "")
        if not checksum or not cm_root:
            return listing
        files = (self._with_checksum(file, checksum, cm_root) for file in listing.files)
        return replace(listing, files=tuple(files))

    def _with_checksum(self, file: SourceFile, sample: str, cm_root: str) -> SourceFile:
        """Return ``file`` with its checksum, in the same form as in ``sample``, if it can be computed."""
        location = parse_location(file.uri)
        digest = new_digest_like(location, sample)
        files = self._file_systems.of(location)
        if digest is None or files.stat(location).size_bytes > CHECKSUM_BYTES_MAX:
            return file
        if files.is_encrypted(location):  # HDFS has a checksum of the stored bytes only
            return file
        for chunk in read_chunks(files, location):
            digest.update(chunk)
        return replace(file, checksum=digest.hexdigest(), cm_root=cm_root)


def _to_write_event(
    db: str, table: str, partition: str, write_id: int, listing: WriteListing
) -> WriteEventInfo:
    """Return the write event that the source should have logged.

    Its directory has no suffix of a compaction.
    """
    files = (
        f"{file.uri}#{file.checksum or ''}#{file.cm_root or ''}#{to_target_subdir(file.subdir)}"
        for file in listing.files
    )
    return WriteEventInfo(
        writeId=write_id, database=db, table=table, files="]".join(files), partition=partition
    )


def build_unlogged_partitions(config: Config, name: str) -> UnloggedPartitions | None:
    """Return the lister of the source's unlogged partitions, for a relay or a consumer that fills gaps.

    None if no policy uses the source, or if reading files is impossible or switched off.
    """
    source = config.sources[name]
    policies = (*config.policies.values(), *config.policy_patterns.values())
    if all(policy.source != name for policy in policies):
        return None
    if not source.read_roots or not source.relay.list_partitions:
        return None
    roots = AllowedRoots.of(source.read_roots)
    files = open_file_systems(config.files.all_options(), roots.roots)
    scan_tables = frozenset(source.relay.scan_tables)
    return UnloggedPartitions(ReplicatedDatabases(config, name), files, roots, scan_tables=scan_tables)
