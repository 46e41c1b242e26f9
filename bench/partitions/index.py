"""Cases of the partition index in memory and in SQLite, and the list of all cases."""

from __future__ import annotations

import itertools
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from bench.partitions import hbase
from bench.partitions.metastore import measure_metastore
from bench.partitions.plans import plan_cases
from bench.partitions.worst_filters import worst_filter_cases
from bench.report import Row, median_s, row
from state.partitions.index.partition_index import PartitionIndex
from state.store import Store
from state.store.memory import MemoryStore
from state.store.sqlite import SqliteStore


TABLE = "bench.events"
COLUMNS = [("ds", "date"), ("hr", "int"), ("region", "string")]
ROWS_PER_DAY = 480
BATCH_DAYS = 40
SMALL_DAYS = 10_000 // ROWS_PER_DAY
HBASE_DAYS = 100_000 // ROWS_PER_DAY


def memory_cases(quick: bool) -> Iterator[Row]:
    days = _count_days(quick)
    index = fill_index(MemoryStore(), days)
    yield from measure_ranges(index, days)
    yield from measure_others(index, days)
    yield measure_slope("memory_480_slope", index, fill_index(MemoryStore(), SMALL_DAYS), days)


def hbase_cases(quick: bool) -> Iterator[Row]:  # noqa: ARG001 - the table is small in any run
    yield from hbase.cases(fill_index, HBASE_DAYS)


def sqlite_cases(quick: bool) -> Iterator[Row]:
    days = _count_days(quick)
    # Measure memory in a separate process, because this one may hold another index.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        yield from alone.submit(measure_sqlite, days if quick else days * 10).result()


PARTS: Final = {
    "memory": memory_cases,
    "plans": plan_cases,
    "worst_filters": worst_filter_cases,
    "metastore": measure_metastore,
    "hbase": hbase_cases,
    "sqlite": sqlite_cases,
}


def _count_days(quick: bool) -> int:
    return 100_000 // ROWS_PER_DAY if quick else 1_000_000 // ROWS_PER_DAY


def measure_ranges(index: PartitionIndex, days: int) -> Iterator[Row]:
    start, end = hbase.format_day(days // 2), hbase.format_day(days // 2 + 29)
    for case, rows, limit, text in [
        ("point", 1, 10, f"ds = '{start}' and hr = 5 and region = 'r07'"),
        ("20", 20, 20, f"ds = '{start}' and hr = 5"),
        ("480", 480, 150, f"ds = '{start}'"),
        ("14400", 14_400, 3000, f"ds between '{start}' and '{end}'"),
    ]:
        yield row(f"memory_1m_{case}", time_count(index, text, rows) * 1e6, "µs", at_most=limit)


def measure_others(index: PartitionIndex, days: int) -> Iterator[Row]:
    rows = days * 20
    whole = index.prepare(TABLE, "region like '%r05'")  # no range bounds it: every key is read
    own_s, scan_s = time_count(index, "hr = 5", rows), cpu_median_s(lambda: index.count(whole), repeats=3)
    per_thousand = 1e3 / rows * 1e3
    rival = ("full scan", scan_s * per_thousand)
    yield row("memory_1m_nonleading_1000", own_s * per_thousand, "ms", at_most=2, rival=rival)
    listed = ",".join(f"'{hbase.format_day(number)}'" for number in range(min(days, 1000)))
    point = f"(ds) in ({listed}) and hr = 5 and region = 'r07'"
    spaces = itertools.count()

    def plan_and_run() -> int:
        # Use a different text each time, so that no plan is cached.
        return index.count(index.prepare(TABLE, point + " " * next(spaces)))

    assert plan_and_run() == min(days, 1000)
    yield row("memory_1m_in_1000", cpu_median_s(plan_and_run, repeats=15) * 1e3, "ms", at_most=15)


def measure_sqlite(days: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder, "index.db"), schema_version=1, durable=False)
        small = SqliteStore(Path(folder, "small.db"), schema_version=1, durable=False)
        try:
            index = fill_index(store, days)
            own_s = time_count(index, f"ds = '{hbase.format_day(days // 2)}'", ROWS_PER_DAY)
            slopes = measure_slope("sqlite_480_slope", index, fill_index(small, SMALL_DAYS), days)
        finally:
            store.close()
            small.close()
    return [
        row("sqlite_10m_480", own_s * 1e3, "ms", at_most=2),
        row("sqlite_10m_rss", read_peak_memory_mb(), "MB", at_most=200),
        slopes,
    ]


def read_peak_memory_mb() -> float:
    """Return the peak resident memory of this process. ``getrusage`` would include that of the parent before
    the fork.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure_slope(case: str, large: PartitionIndex, small: PartitionIndex, days: int) -> Row:
    """Return how many times longer reading the same 480 rows takes than in a table of 10,000 partitions."""
    text = f"ds = '{hbase.format_day(SMALL_DAYS // 2)}'"
    ratio = time_count(large, text, ROWS_PER_DAY) / time_count(small, text, ROWS_PER_DAY)
    return row(f"{case}_{days // SMALL_DAYS}x", ratio, "times", at_most=2)


def time_count(index: PartitionIndex, text: str, expected: int) -> float:
    prepared = index.prepare(TABLE, text)
    assert index.count(prepared) == expected, text
    return cpu_median_s(lambda: index.count(prepared), repeats=15)


def fill_index(store: Store, days: int) -> PartitionIndex:
    index = PartitionIndex(store)
    with store.transaction() as txn:
        change = index.change(txn)
        change.follow(TABLE, COLUMNS)
    change.publish()
    for first in range(0, days, BATCH_DAYS):
        with store.transaction() as txn:
            change = index.change(txn)
            for number in range(first, min(first + BATCH_DAYS, days)):
                for at in range(ROWS_PER_DAY):
                    change.add(TABLE, (hbase.format_day(number), str(at // 20), f"r{at % 20:02}"))
        change.publish()
    return index


def cpu_median_s(call: Callable[[], object], *, repeats: int) -> float:
    return median_s(call, repeats=repeats, cpu=True)
