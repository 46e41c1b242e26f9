"""The HBase cases of ``bench.partitions``: the rows that HBase sends for each matching row, and the time.

The benchmark starts HBase in one process and its gateway in another. Times are wall times, because other
processes do the work.
"""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from bench.report import Row, median_s, row
from dev.stack.servers.hbase import HBase
from handlers.hbase.store import HBaseStore, open_store
from state.partitions.index.partition_index import PartitionIndex
from state.store import Store


TABLE: Final = "bench.events"
FIRST: Final = dt.date(2020, 1, 1)
FETCHED_MAX: Final = 2


def cases(fill_index: Callable[[Store, int], PartitionIndex], days: int) -> Iterator[Row]:
    """Run all cases; ``fill_index`` builds an index of ``days`` days with 480 partitions each."""
    with (
        tempfile.TemporaryDirectory() as folder,
        HBase(Path(folder)) as hbase,
        closing(open_store("127.0.0.1", hbase.port, "bench", timeout_s=30)) as store,
    ):
        began_s = time.perf_counter()
        index = fill_index(store, days)
        loaded_s = time.perf_counter() - began_s
        yield row("hbase_load", days * 480 / loaded_s, "rows/s")
        yield from measure_filters(store, index, days)


def measure_filters(store: HBaseStore, index: PartitionIndex, days: int) -> Iterator[Row]:
    start, end = format_day(days // 2), format_day(days // 2 + 23)
    whole = index.prepare(TABLE, "region like '%r05'")  # no range bounds it: every key is sent
    scan_ms = median_s(lambda: index.count(whole), repeats=3) * 1e3
    for case, text, expected in [
        ("480", f"ds = '{start}'", 480),
        ("480_postings", f"hr = 5 and ds between '{start}' and '{end}'", 480),
        ("480_residual", f"ds between '{start}' and '{end}' and hr != 5 and region >= 'r19'", 552),
    ]:
        prepared = index.prepare(TABLE, text)
        before = store.counts["rows-fetched"]
        assert index.count(prepared) == expected, text
        fetched = (store.counts["rows-fetched"] - before) / expected
        yield row(f"hbase_100k_{case}", fetched, "fetched/matched", at_most=FETCHED_MAX)
        own_ms = median_s(partial(index.count, prepared), repeats=9) * 1e3
        yield row(f"hbase_100k_{case}_time", own_ms, "ms", rival=("full scan", scan_ms))


def format_day(number: int) -> str:
    return (FIRST + dt.timedelta(days=number)).isoformat()
