"""The files of one write id in one table, of a source that does not report write events.

INSERT events name some of them, with their checksums; the directories of the write id contain the others.
This module decides whether these are all files (``state.transactions.own_directories``). If files may be
missing, it reports the write as incomplete, and replicas load the table.

It lists the directory first, then checks that table and partition are still those of the events. In the
meantime, new ones may have got the same names, directories and write ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from daemon.sources.listing.other_locations import OtherLocations
from daemon.sources.listing.partition_scan import scan
from daemon.sources.listing.unnamed_files import Sample, read_files
from daemon.sources.log_connections import NotificationLog
from handlers.files.acid_writes import OwnFile, OwnListing, list_own_files
from handlers.files.filesystems import FileSystems
from handlers.files.paths import AllowedRoots, parse_location, to_target_subdir
from handlers.replication.target.objects import (
    format_partition_name,
    is_insert_only,
    is_transactional,
    partition_key_names,
)
from handlers.replication.target.same_table import is_same_table
from handlers.structs import tjson
from handlers.structs.objects import Partition, Table
from state.errors import BadInput, NotFound, Refused, UnsafePath
from state.transactions.open_candidates import Candidate, CandidateWrite
from state.transactions.own_directories import is_complete


RENAMED: Final = "the table or partition was renamed or dropped before the relay listed its files"
UNFINISHED: Final = "a stream has not finished a file of a committed transaction"
UNFINISHED_S: Final = 30.0
"""Time limit for an unfinished file; streams finish it when they begin the next transaction."""
AGAIN_S: Final = 0.5
STREAMED: Final = (
    "the transaction is part of a batch that a stream writes into one directory; batches of one transaction "
    "can be replicated"
)


Scans = Literal["always", "check", "suspected"]
"""When to look for partitions that no event names: always; always if that is cheap; or if the events do not
look like those of an SQL statement.
"""


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """The files of a write in one partition, "" for a table without partitions."""

    partition: str
    entries: tuple[str, ...] = ()
    incomplete: str | None = None
    """The reason why files may be missing; None if these are all."""
    is_scanned: bool = False
    """Whether no event names the partition."""


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """A write id, its table, and the partitions that may have files of it."""

    write: CandidateWrite
    table: Table | None = None
    candidates: Mapping[str, Candidate] = field(default_factory=dict)
    incomplete: str | None = None
    """Why the files are missing."""
    is_check: bool = False
    """Whether the events name partitions like those of SQL statements, so that the relay examines the others
    only as a check.
    """


@dataclass(frozen=True, slots=True)
class ListingTools:
    """The collaborators of listings."""

    file_systems: FileSystems
    allowed: AllowedRoots
    others: OtherLocations = field(default_factory=OtherLocations)
    pause: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic


def prepare(log: NotificationLog, write: CandidateWrite, tools: ListingTools, scans: Scans) -> PreparedWrite:
    """Return the directories to list. ``scans`` says when to search for partitions that no event names.

    Raises Transient.
    """
    try:
        table = _find_table(log, write)
    except NotFound:
        return PreparedWrite(write, incomplete=RENAMED)
    except (BadInput, Refused) as error:
        return PreparedWrite(write, incomplete=f"[{error.code}] {error.message}")
    if not write.is_complete:
        return PreparedWrite(write, incomplete="more partitions were written than the relay can remember")
    if table.partitionKeys:
        return _prepare_partitions(log, write, table, tools, scans)
    named = write.partitions.get("")
    return PreparedWrite(write, table, {"": named or Candidate(table.sd.location or "")})


def _prepare_partitions(
    log: NotificationLog, write: CandidateWrite, table: Table, tools: ListingTools, scans: Scans
) -> PreparedWrite:
    is_sql = any(each.is_altered for each in write.partitions.values())
    if is_sql and scans == "suspected":
        return PreparedWrite(write, table, write.partitions)
    is_check = is_sql and scans == "check"
    try:
        scanned = _scan(log, write, table, tools, is_check=is_check)
    except NotFound:
        scanned = {}
    except (BadInput, Refused) as error:
        if is_check:
            return PreparedWrite(write, table, write.partitions)
        return PreparedWrite(write, incomplete=f"[{error.code}] {error.message}")
    return PreparedWrite(write, table, scanned | write.partitions, is_check=is_check)


def _scan(
    log: NotificationLog, write: CandidateWrite, table: Table, tools: ListingTools, *, is_check: bool
) -> dict[str, Candidate]:
    """Return the partitions that a scan finds, including those that no event names."""
    found = scan(tools.file_systems, table, write.time_s, allowed=tools.allowed, needs_times=is_check)
    for name, location in tools.others.find(log, table).items():
        with suppress(UnsafePath):  # below no read_root, so that replicas cannot copy it either
            tools.allowed.require_directory(parse_location(location))
            found[name] = Candidate(location, is_scanned=True)
    return found


def _find_table(log: NotificationLog, write: CandidateWrite) -> Table:
    """Return the table from the last event about it or, without such an event, from the metastore."""
    if write.owner_text is not None:
        return tjson.decode(Table, write.owner_text)
    db, _, name = write.table.partition(".")
    return log.get_table(db, name)


def list_partitions(
    log: NotificationLog,
    prepared: PreparedWrite,
    names: Sequence[str],
    tools: ListingTools,
    sample: Sample | None,
) -> list[WrittenPart]:
    """Return the files of the write in some of its candidate partitions, without candidates that have none.

    ``sample`` is a file from an INSERT event of the source, for the form of checksums. Raises Transient.
    """
    table = prepared.table
    assert table is not None, "only of a table that was found"
    write_id, is_full_acid = prepared.write.write_id, not is_insert_only(table)
    listings: dict[str, OwnListing | str] = {}
    until_s = tools.clock() + UNFINISHED_S
    for name in names:
        candidate = prepared.candidates[name]
        listing = _list(candidate, write_id, tools, sample, is_full_acid=is_full_acid)
        while listing == UNFINISHED and tools.clock() < until_s:
            tools.pause(AGAIN_S)
            listing = _list(candidate, write_id, tools, sample, is_full_acid=is_full_acid)
        listings[name] = listing
    same = _select_same(log, prepared, listings)
    candidates = ((name, prepared.candidates[name]) for name in names)
    parts = (
        _decide(name, candidate, listings[name], is_same=name in same, is_full_acid=is_full_acid)
        for name, candidate in candidates
        if not (prepared.is_check and candidate.is_scanned and not _has_files(listings[name]))
    )
    return [part for part in parts if part is not None]


def _has_files(listing: OwnListing | str) -> bool:
    """Whether the directory contains files of the write, complete or not."""
    if isinstance(listing, str):
        return listing == UNFINISHED
    return bool(listing.files) or listing.is_streamed


def _list(
    candidate: Candidate, write_id: int, tools: ListingTools, sample: Sample | None, *, is_full_acid: bool
) -> OwnListing | str:
    """Return the listing with checksums, or the reason why listing failed."""
    named = {entry.rpartition("#")[2].partition("/")[0] for entry in candidate.entries.values()}
    try:
        listing = list_own_files(
            tools.file_systems, candidate.location, write_id, named=named, allowed=tools.allowed
        )
        if listing.covered_by is not None:
            return listing
        files = read_files(listing.files, tools.file_systems, sample, is_orc=is_full_acid)
    except NotFound as error:
        return f"files vanished during their listing: {error.message}"
    except (BadInput, Refused) as error:
        return f"[{error.code}] {error.message}"
    return UNFINISHED if files is None else replace(listing, files=tuple(files))


def _decide(
    name: str, candidate: Candidate, listing: OwnListing | str, *, is_same: bool, is_full_acid: bool
) -> WrittenPart | None:
    """Return the files of a partition, or why some may be missing; None if the write has none there."""
    obstacle = _find_obstacle(listing, is_same=is_same)
    entries = tuple(candidate.entries.values())
    is_scanned = candidate.is_scanned and _has_files(listing)  # a compaction changes directories, too
    if isinstance(listing, OwnListing):
        if candidate.is_scanned and not listing.files and not (is_same and listing.exists):
            return None  # not a partition, changed by another write, or without a directory
        if listing.is_streamed:
            return WrittenPart(name, incomplete=STREAMED)
    if not is_complete(
        is_covered=obstacle is not None,
        is_named=bool(entries),
        is_added=candidate.is_added,
        is_full_acid=is_full_acid,
    ):
        return WrittenPart(name, incomplete=obstacle, is_scanned=is_scanned)
    if isinstance(listing, OwnListing) and obstacle is None:
        entries += _to_entries(listing.files, candidate.entries)
    return WrittenPart(name, entries, is_scanned=is_scanned) if entries else None


def _to_entries(files: Sequence[OwnFile], known: Container[str]) -> tuple[str, ...]:
    """Return the entries of the listed files that INSERT events do not name."""
    return tuple(
        f"{each.uri}#{each.checksum or ''}#{each.cm_root or ''}#{to_target_subdir(each.subdir)}"
        for each in (own.file for own in files)
        if str(parse_location(each.uri)) not in known
    )


def _find_obstacle(listing: OwnListing | str, *, is_same: bool) -> str | None:
    """Return why a listing may not show all files of the write; None if it shows all."""
    if isinstance(listing, str):
        return listing
    if not listing.exists or not is_same:
        return RENAMED
    if listing.covered_by is not None:
        return f"{listing.covered_by} may have replaced files before they were listed"
    return None


def _select_same(
    log: NotificationLog, prepared: PreparedWrite, listings: Mapping[str, OwnListing | str]
) -> set[str]:
    """Return the partitions that are still the same as in the events.

    It does not query the metastore about a partition if INSERT events name all its files, because then only
    the names of directories matter.
    """
    write, known = prepared.write, prepared.table
    assert known is not None, "only of a table that was found"
    db, _, name = write.table.partition(".")
    try:
        table = log.get_table(db, name)
    except (BadInput, Refused):
        return set()
    if not is_same_table(known, table) or table.sd.location != known.sd.location:
        return set()
    if not is_transactional(table):
        return set()
    if not table.partitionKeys:
        return set(listings)
    candidates = prepared.candidates
    asked = sorted(each for each, listing in listings.items() if _must_ask(candidates[each], listing))
    keys = partition_key_names(table)
    found = {
        format_partition_name(keys, list(partition.values or [])): partition
        for partition in (log.get_partitions(db, name, asked, with_columns=False) if asked else ())
    }
    same = {each for each in asked if _is_same(candidates[each], found.get(each))}
    return same | (set(listings) - set(asked))


def _must_ask(candidate: Candidate, listing: OwnListing | str) -> bool:
    return not candidate.entries or candidate.is_added or isinstance(listing, str) or bool(listing.files)


def _is_same(candidate: Candidate, partition: Partition | None) -> bool:
    if partition is None or partition.sd.location is None:
        return False
    if parse_location(partition.sd.location) != parse_location(candidate.location):
        return False
    return candidate.created_s is None or partition.createTime == candidate.created_s
