"""A listing of all partitions of one table, as timelines: computed without the store, then written in steps.

A table may have millions of partitions, so neither step may run in one transaction or keep an object for
every partition in memory. It reads the listing twice: the first pass collects and sorts the values of each
timeline, which decides on strays; the second writes the entries of each partition, under its own number.
``TimelineChange.finish_listing`` replaces the table's content at the end, at the cost of one record.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Final

from state.store import Transaction, get_many
from state.timelines.ignored_values import IgnoredValues
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs
from state.timelines.sorting import sort_in_steps
from state.timelines.tables import records
from state.timelines.tables.records import PartitionEntry
from state.timelines.tables.settings import TableSettings
from state.timelines.tables.table_timelines import TimelineKey
from state.timelines.timeline import Timeline


DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
_BUCKETS: Final = 1024
"""Each has its own sort: no single call sorts a million keys."""


class ListingLoad:
    """The timelines of one listing."""

    def __init__(
        self,
        settings: TableSettings,
        partitions: Callable[[], Iterable[tuple[Mapping[str, str], UpdatePeriod | None]]],
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        """``partitions`` begins a pass over all partitions, and returns the values of each and the period in
        its parameter.

        Calls ``pause`` between parts of long computations.
        """
        self._pause = pause
        self.settings = settings
        self._partitions = partitions
        self.runs: dict[TimelineKey, Runs] = {}
        self.skipped: Counter[str] = Counter()
        """Refused values, by reason."""
        self.ignored: dict[int, IgnoredValues] = {}
        """The refused values by the number of their column; complete at the end of ``content``."""
        self._shared: dict[TimelineKey, tuple[array[int], array[int]]] = {}
        """Values of more than one partition, with their numbers of partitions.

        In arrays: a million tuples would make every garbage collection stop all threads for some tenths of a
        second.
        """

    def compute(self) -> None:
        """Make the first pass; it changes nothing in the store."""
        ordinals: dict[TimelineKey, array[int]] = {}
        columns = len(self.settings.time_columns)
        for spec, period in self._partitions():
            entries = self._read(spec, period)
            self.skipped["no-time"] += columns - len(entries)
            for entry in entries:
                ordinals.setdefault(entry.timeline, array("q")).append(entry.ordinal)
        for key, listed in ordinals.items():
            self._compute_timeline(key, listed)

    def content(self, number: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys and values for a table number. This is the second pass."""
        for key, runs in self.runs.items():
            for pair in runs.pairs():
                yield records.encode_run(number, key, pair)
        if self.settings.is_sole and not self.skipped.total():
            return
        for spec, period in self._partitions():
            entries = [
                entry for entry in self._read(spec, period) if entry.ordinal in self.runs[entry.timeline]
            ]
            values = list_values(self.settings, spec)
            if not self.settings.is_sole:
                yield records.encode_entries(number, values, entries)
            for column, text in list_ignored(self.settings, spec, entries):
                self.ignored[column] = self.ignored.get(column, IgnoredValues()).with_value(text)
                yield records.encode_ignored(number, column, text, values), b""
        for key, (ordinals, counts) in self._shared.items():
            for ordinal, count in zip(ordinals, counts, strict=True):
                yield records.encode_count(number, PartitionEntry(*key, ordinal), count)

    def _compute_timeline(self, key: TimelineKey, listed: array[int]) -> None:
        ordered = sort_in_steps(listed, self._pause)
        timeline = Timeline(key[0], "", jump_max=self.settings.jump_max)
        self.skipped["stray"] += timeline.load_runs(Runs.of_sorted(ordered, self._pause))
        self.runs[key] = timeline.runs
        if not self.settings.is_sole:
            self._shared[key] = _count_repeated(ordered, timeline.runs)

    def _read(self, spec: Mapping[str, str], period: UpdatePeriod | None) -> list[PartitionEntry]:
        entries = []
        for number, column in enumerate(self.settings.time_columns):
            read = self.settings.read(spec.get(column.lower(), ""), period)
            if read is not None:
                entries.append(PartitionEntry(read[0], number, read[1]))
        return entries


class ListingWriter:
    """Writes the content of a listing under its table number in steps, and continues after an interrupted
    load.

    A load interrupted by a restart or by a change of the table has left content of an older listing. The new
    listing may differ from it anywhere. A comparison of every key replaces most writes, in a fraction of the
    time; the end removes keys that the new listing does not have.
    """

    def __init__(self, listing: ListingLoad, number: int, *, resumed: bool) -> None:
        """``resumed``: an interrupted load may have written under ``number`` before."""
        self._content = listing.content(number)
        self._number = number
        self._keys = KeySet() if resumed else None
        self._is_written = False
        self._checked_to = b""

    def write(self, txn: Transaction, limit: int) -> bool:
        """Write or check at most ``limit`` keys; return whether there is more."""
        if not self._is_written:
            chunk = list(islice(self._content, limit))
            self._put(txn, chunk)
            self._is_written = len(chunk) < limit
            return not self._is_written or self._keys is not None
        return self._keys is not None and self._remove_others(txn, self._keys, limit)

    def _put(self, txn: Transaction, chunk: list[tuple[bytes, bytes]]) -> None:
        if self._keys is None:
            for key, value in chunk:
                txn.put(key, value)
            return
        for (key, value), stored in zip(chunk, get_many(txn, [key for key, _ in chunk]), strict=True):
            self._keys.add(key)
            if stored != value:
                txn.put(key, value)

    def _remove_others(self, txn: Transaction, keys: KeySet, limit: int) -> bool:
        """Among the next ``limit`` keys, remove those that are not in the listing."""
        stored = list(islice(records.scan_content(txn, self._number, self._checked_to), limit))
        for key in stored:
            if key not in keys:
                txn.delete(key)
        if stored:
            self._checked_to = stored[-1] + b"\x00"
        return len(stored) == limit


class KeySet:
    """A set of millions of keys in eight bytes each: their hashes, which confuse two keys once in 10^19
    comparisons.
    """

    def __init__(self) -> None:
        self._buckets = [array("q") for _ in range(_BUCKETS)]
        self._is_sorted = bytearray(_BUCKETS)

    def add(self, key: bytes) -> None:
        """Add a key."""
        hashed = hash(key)
        self._buckets[hashed % _BUCKETS].append(hashed)
        self._is_sorted[hashed % _BUCKETS] = False

    def __contains__(self, key: bytes) -> bool:
        hashed = hash(key)
        number = hashed % _BUCKETS
        if not self._is_sorted[number]:
            self._buckets[number] = array("q", sorted(self._buckets[number]))
            self._is_sorted[number] = True
        ordered = self._buckets[number]
        at = bisect_left(ordered, hashed)
        return at < len(ordered) and ordered[at] == hashed


def _count_repeated(ordered: Iterable[int], runs: Runs) -> tuple[array[int], array[int]]:
    """Return the members of ``runs`` that occur more than once, and how often."""
    ordinals, counts = array("q"), array("q")
    for ordinal, same in groupby(ordered):
        count = sum(1 for _ in same)
        if count > 1 and ordinal in runs:
            ordinals.append(ordinal)
            counts.append(count)
    return ordinals, counts


def list_values(settings: TableSettings, spec: Mapping[str, str]) -> Sequence[str]:
    """Return a partition's values, with "" for the default partition: a name contains the default partition's
    name where a whole partition contains "".
    """
    values = [spec.get(column.lower(), "") for column in settings.partition_columns]
    return ["" if value == DEFAULT_PARTITION else value for value in values]


def list_ignored(
    settings: TableSettings, spec: Mapping[str, str], entries: Sequence[PartitionEntry]
) -> list[tuple[int, str]]:
    """Return (number of the time column,
    value) of the values of a partition that are in none of its entries.
    """
    if len(entries) == len(settings.time_columns):
        return []
    timed = {entry.column for entry in entries}
    return [
        (number, text) for number, text in enumerate(list_time_values(settings, spec)) if number not in timed
    ]


def list_time_values(settings: TableSettings, spec: Mapping[str, str]) -> list[str]:
    """Return a partition's values of the time columns, with the default partition's name for an empty one."""
    return [spec.get(column.lower(), "") or DEFAULT_PARTITION for column in settings.time_columns]
