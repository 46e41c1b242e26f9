"""Possible writes of open transactions, in bounded memory, for a source that does not report write events.

Before Hive 4, an event names a table or partition, but neither a transaction nor a write id (reference:
hive-3.1-source.md §1). An allocation says which transaction holds which write id of which table. Everything
added or altered while a table has open write ids is therefore a candidate for each of them. The names of the
directories decide later whether a write has files there.

Too many entries are not an error. Beyond ``entries_max``, the record forgets the entries of the write that
has the most, and that write is no longer ``is_complete``; beyond ``txns_max`` transactions, it forgets the
oldest transaction. ``end`` returns None for a transaction that may have allocated unseen: a forgotten one, or
one opened before the first observed event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final


ENTRIES_MAX: Final = 200_000
"""Partitions and files of all open writes."""
TXNS_MAX: Final = 50_000


@dataclass(slots=True)
class Candidate:
    """A partition, or a whole table without partitions, that a write may have files in."""

    location: str
    created_s: int | None = None
    """Creation time of the partition in its object; it stays the same over a rename."""
    is_added: bool = False
    """Whether its creation falls into the open write. INSERT events do not name all its files then."""
    is_altered: bool = False
    """Whether an event alters it or inserts into it. SQL statements alter all partitions that they write; a
    stream only adds those that do not exist."""
    is_scanned: bool = False
    """Whether no event names it, only the time of its directory."""
    entries: dict[str, str] = field(default_factory=dict)
    """The entries of files that INSERT events named, by the location of the file."""


@dataclass(slots=True)
class CandidateWrite:
    """One write id of a table (``db.tbl``) and the possible places of its files, by partition ("" for the
    table).
    """

    table: str
    write_id: int
    event_id: int
    """The event that allocated it."""
    time_s: int
    owner_text: str | None = None
    """The encoded table of the last event about it."""
    partitions: dict[str, Candidate] = field(default_factory=dict)
    is_complete: bool = True
    """False after forgetting partitions or entries."""
    count: int = 0

    def forget(self) -> None:
        """Forget the partitions and their files."""
        self.partitions, self.count, self.is_complete = {}, 0, False


class OpenCandidates:
    """Candidates by open transaction; feed events in order. Not thread-safe."""

    def __init__(
        self, *, knows_all: bool = False, entries_max: int = ENTRIES_MAX, txns_max: int = TXNS_MAX
    ) -> None:
        """``knows_all`` says that no transaction that is still open allocated write ids before the first
        observed event.
        """
        self._entries_max, self._txns_max = entries_max, txns_max
        self._txns: dict[int, dict[tuple[str, int], CandidateWrite]] = {}
        self._of_table: defaultdict[str, dict[int, CandidateWrite]] = defaultdict(dict)
        self._count = 0
        self._known_from: int | None = 0 if knows_all else None
        """Transactions from this one on began after the first event; None if unknown."""

    def __len__(self) -> int:
        """Return the number of recorded partitions and files."""
        return self._count

    @property
    def txn_ids(self) -> frozenset[int]:
        """The transactions that have write ids and have not ended."""
        return frozenset(self._txns)

    @property
    def first_event_id(self) -> int | None:
        """The event id of the first allocation of all open transactions; reading the log from there on
        gives the same record again.
        """
        return next((write.event_id for writes in self._txns.values() for write in writes.values()), None)

    @property
    def knows_all(self) -> bool:
        """Whether the allocations of all open transactions are known."""
        return self._known_from == 0

    @property
    def waits_for_opening(self) -> bool:
        """Whether all known transactions may have begun before the first event."""
        return self._known_from is None

    def open(self, txn_id: int) -> None:
        """Record the beginning of a transaction; later ones have higher ids."""
        if self._known_from is None:
            self._known_from = txn_id

    def learn_open(self, oldest: int | None) -> None:
        """Record the oldest open transaction, None if no transaction is open: earlier transactions do not
        matter.
        """
        if self._known_from is not None and (oldest is None or oldest >= self._known_from):
            self._known_from = 0

    def allocate(self, txn_id: int, table: str, write_id: int, *, event_id: int, time_s: int) -> None:
        """Record that a write id of ``table`` belongs to the transaction."""
        write = CandidateWrite(table, write_id, event_id, time_s)
        self._txns.setdefault(txn_id, {})[table, write_id] = write
        self._of_table[table][write_id] = write
        if len(self._txns) > self._txns_max:
            oldest = next(iter(self._txns))
            self.end(oldest)
            self._known_from = max(self._known_from or 0, oldest + 1)

    def is_open(self, table: str) -> bool:
        """Whether an open transaction has a write id of ``table``."""
        return table in self._of_table

    def see_table(self, table: str, owner_text: str) -> None:
        """Record the encoded table, as an event has it, for its open writes."""
        for write in self._of_table.get(table, {}).values():
            write.owner_text = owner_text

    def touch(
        self, table: str, partition: str, location: str, *, created_s: int | None, is_added: bool = False
    ) -> None:
        """Record a partition, or "" for the table, as a candidate for every open write id of the table."""
        for write in self._of_table.get(table, {}).values():
            candidate = write.partitions.get(partition)
            if candidate is None:
                candidate = write.partitions[partition] = Candidate(location)
                self._add(write)
            candidate.location, candidate.created_s = location, created_s
            candidate.is_added = candidate.is_added or is_added
            candidate.is_altered = candidate.is_altered or not is_added

    def name_files(self, table: str, write_id: int, partition: str, entries: Mapping[str, str]) -> None:
        """Record the entries of files that an INSERT event names in a touched partition; ignored if no open
        transaction owns the write id.
        """
        write = self._of_table.get(table, {}).get(write_id)
        candidate = None if write is None else write.partitions.get(partition)
        if write is None or candidate is None:
            return
        known = len(candidate.entries)
        candidate.entries.update(entries)
        self._add(write, len(candidate.entries) - known)

    def miss(self, table: str | None = None) -> None:
        """Record that an event about ``table``, or about any table, was unreadable."""
        for name in [table] if table is not None else list(self._of_table):
            for write in self._of_table.get(name, {}).values():
                self._count -= write.count
                write.forget()

    def end(self, txn_id: int) -> Sequence[CandidateWrite] | None:
        """Forget a finished transaction; return its writes, None if some may be unknown."""
        writes = self._txns.pop(txn_id, {})
        for (table, write_id), write in writes.items():
            self._count -= write.count
            of_table = self._of_table[table]
            if of_table.get(write_id) is write:
                del of_table[write_id]
            if not of_table:
                del self._of_table[table]
        if self._known_from is None or txn_id < self._known_from:
            return None
        return tuple(writes.values())

    def _add(self, write: CandidateWrite, count: int = 1) -> None:
        write.count += count
        self._count += count
        while self._count > self._entries_max:
            largest = max(
                (each for writes in self._txns.values() for each in writes.values()),
                key=lambda each: each.count,
            )
            self._count -= largest.count
            largest.forget()
