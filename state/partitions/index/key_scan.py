"""Scans the keys of partitions that match a planned filter, in the order of the access path.

A filter becomes ranges of keys; if the ranges contain more than the matches, a check of every key follows.

A store across a network (``RemoteReader``) differs in two points. One request fetches a batch of keys. And
without transactions it writes postings before their row and removes them after it: a posting counts only if
its row exists. Rows need no such check. A store that can filter on its side (``FilteringReader``) receives
the condition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Protocol, runtime_checkable

from state.partitions.filters.conditions import Check, Condition
from state.partitions.index.check_budget import AnswerBudget, CheckBudget
from state.partitions.index.prepared_filters import PlanCache, PreparedFilter
from state.partitions.index.records import IndexedTable
from state.partitions.keys import partition_key
from state.store import Reader, RemoteReader, as_remote, prefix_end


KEYS_BATCH: Final = 512
"""Number of keys in one existence check."""


@runtime_checkable
class FilteringReader(RemoteReader, Protocol):
    """A store that can leave out some keys of rows that do not match; the index still checks the keys that
    it returns.
    """

    def scan_matching(self, start: bytes, end: bytes | None, condition: Condition) -> Iterator[bytes]:
        """Yield the keys of rows with ``start <= key < end`` in order;
        may leave out keys that ``condition`` excludes.
        """


class KeyScan:
    """Scans keys for one reader. Reports to ``plans`` how many keys each scan has checked, so that a filter
    is planned again once its table has outgrown the plan.
    """

    def __init__(self, reader: Reader, plans: PlanCache, counts: Counter[str]) -> None:
        """Counts ``rows-scanned`` and ``postings-dropped`` in ``counts``."""
        self._reader = reader
        self._remote = as_remote(reader)
        self._filtering = reader if self._remote is not None and isinstance(reader, FilteringReader) else None
        self._plans = plans
        self._counts = counts

    def keys(self, prepared: PreparedFilter, budget: AnswerBudget) -> Iterator[bytes]:
        """Yield the key of every partition that matches; raise FilterTooExpensive."""
        scan = self._scan(prepared, budget)
        if prepared.further:
            scan = _drop_repeated(scan)
        if self._remote is None or prepared.access.column is None:
            return scan
        return _drop_orphans(self._remote, prepared.table, scan, self._counts)

    def _scan(self, prepared: PreparedFilter, budget: AnswerBudget) -> Iterator[bytes]:
        if prepared.check is not None and prepared.residual is not None:
            yield from self._scan_checked(prepared, prepared.check, CheckBudget(prepared.residual, budget))
            return
        scanned = 0
        for start, end in key_ranges_of(prepared):
            for key in self._reader.scan_keys(start, end):
                scanned += 1
                yield key
        self._counts["rows-scanned"] += scanned

    def _scan_checked(self, prepared: PreparedFilter, check: Check, budget: CheckBudget) -> Iterator[bytes]:
        scanned, next_look = 0, budget.look(0)
        try:
            for start, end in key_ranges_of(prepared):
                for key in self._keys_between(prepared, start, end):
                    scanned += 1
                    if scanned >= next_look:
                        next_look = budget.look(scanned)
                    if check(key):
                        yield key
        finally:
            self._plans.review(prepared, scanned)
        self._counts["rows-scanned"] += scanned

    def _keys_between(self, prepared: PreparedFilter, start: bytes, end: bytes | None) -> Iterator[bytes]:
        """Yield the keys of one range; a filtering store leaves out keys that do not match."""
        if self._filtering is None or prepared.residual is None or prepared.access.column is not None:
            return self._reader.scan_keys(start, end)
        return self._filtering.scan_matching(start, end, prepared.residual)


def key_ranges_of(prepared: PreparedFilter) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the ranges of stored keys, ``[start, end)``, that the paths of a planned filter read."""
    for access in prepared.paths:
        prefix = prepared.table.prefix(access.column)
        for start, end in access.ranges:
            yield prefix + start, prefix_end(prefix) if end is None else prefix + end


def _drop_repeated(keys: Iterable[bytes]) -> Iterator[bytes]:
    """Yield each key of a partition that has not appeared before."""
    seen: set[bytes] = set()
    for key in keys:
        row = partition_key.strip_prefix(key)
        if row not in seen:
            seen.add(row)
            yield key


def _drop_orphans(
    reader: RemoteReader, table: IndexedTable, postings: Iterable[bytes], counts: Counter[str]
) -> Iterator[bytes]:
    """Yield the postings whose rows exist, in order; count the others as ``postings-dropped``."""
    remaining = iter(postings)
    while batch := list(islice(remaining, KEYS_BATCH)):
        rows = [table.rows + partition_key.strip_prefix(posting) for posting in batch]
        existing = reader.existing(rows)
        counts["postings-dropped"] += len(set(rows)) - len(existing)
        yield from (posting for posting, row in zip(batch, rows, strict=True) if row in existing)
