"""Counts the keys that plans read for 1,000 random filters on 100,000 partitions, compared with the plans of
the seed document.

Rows read are the keys that an answer reads, as ``explain`` counts them. Planning reads keys as well, to
choose a path, but only once for each filter, because plans are cached; another row shows these. For every
filter, the number of matching partitions is compared with a naive computation.
"""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from bench.partitions.random_filters import FilterGenerator, Grid, render_filter
from bench.report import Row, row
from state.partitions.index.partition_index import PartitionIndex
from state.store import Store
from state.store.memory import MemoryStore


TABLE: Final = "bench.plans"
COLUMNS: Final = [("ds", "string"), ("hr", "int"), ("region", "string")]
QUOTED: Final = (True, False, True)
FIRST: Final = dt.date(2024, 1, 1)
DAYS, QUICK_DAYS = 209, 21
FILTERS, QUICK_FILTERS = 1_000, 200
SEED: Final = 9452


@dataclass(frozen=True, slots=True)
class Reads:
    """The number of keys that one filter reads for its answer and for its plan, that match, and that the
    seed's plan reads.
    """

    answer: int
    planning: int
    matched: int
    seed: int


def plan_cases(quick: bool) -> Iterator[Row]:
    grid = build_grid(QUICK_DAYS if quick else DAYS)
    reads = list(read_filters(grid, QUICK_FILTERS if quick else FILTERS))
    per_match = [each.answer / each.matched for each in reads if each.matched]
    title = "plan_rows_read"
    yield row(f"{title}, median per row matched", statistics.median(per_match), "rows", at_most=1.2)
    yield row(f"{title}, 90th percentile per row matched", statistics.quantiles(per_match, n=10)[-1], "rows")
    worst = max(each.answer / max(1, each.seed) for each in reads)
    yield row(f"{title}, worst against the seed's plan", worst, "times", at_most=2)
    total, seed = sum(each.answer for each in reads), sum(each.seed for each in reads)
    yield row(f"{title}, all filters", total, "rows", rival=("the seed's plans", seed))
    yield row(f"{title}, read once by planning all filters", sum(each.planning for each in reads), "rows")


def build_grid(days: int) -> Grid:
    dates = [(FIRST + dt.timedelta(days=number)).isoformat() for number in range(days)]
    return Grid(
        [name for name, _ in COLUMNS],
        [dates, [str(hour) for hour in range(24)], [f"r{number:02}" for number in range(20)]],
    )


def read_filters(grid: Grid, count: int) -> Iterator[Reads]:
    store = _CountingStore()
    index = fill_index(store, grid)
    for node in FilterGenerator(grid, QUOTED, SEED).filters(count):
        before = store.keys_read
        prepared = index.prepare(TABLE, render_filter(node))
        planning = store.keys_read - before
        matched = index.count(prepared)
        assert matched == grid.matching(node).bit_count(), render_filter(node)
        answer = store.keys_read - before - planning
        yield Reads(answer, planning, matched, grid.seed_rows(node).bit_count())


def fill_index(store: Store, grid: Grid) -> PartitionIndex:
    index = PartitionIndex(store)
    with store.transaction() as txn:
        change = index.change(txn)
        change.follow(TABLE, COLUMNS)
        for values in product(*grid.values):
            change.add(TABLE, values)
    change.publish()
    return index


class _CountingStore(MemoryStore):
    """A store that counts the keys that scans return."""

    keys_read = 0

    def scan_keys(self, start: bytes, end: bytes | None) -> Iterator[bytes]:
        for key in super().scan_keys(start, end):
            self.keys_read += 1
            yield key
