"""Cases of the catalog projection without a server: events per second into timelines in a SQLite file, and
the first load of a table.

The benchmark passes events as the consumer does, with their partitions still as text. The measured time
includes looking up the table, decoding the partition, changing the timelines, and committing them durably
with the position, in batches of 500.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from bench.catalog_loads import load_cases, load_reader_cases
from bench.catalog_readers import reader_cases
from bench.report import Row, main, row
from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.rules import Rule, Rules
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from state.store.sqlite import SqliteStore
from state.timelines.periods import UpdatePeriod


BATCH: Final = 500
TABLES: Final = 20
FIRST: Final = UpdatePeriod.MINUTELY.parse("2015-01-01-00-00")


def apply_cases(quick: bool) -> Iterator[Row]:
    size = 5_000 if quick else 50_000
    rate = "events/s"
    yield row("catalog_apply, a day column alone", measure_adds(["dt"], size), rate, at_least=15_000)
    yield row("catalog_apply, two partition columns", measure_adds(["dt", "x"], size), rate, at_least=15_000)
    yield row("catalog_apply, adds and drops in turn", measure_adds_and_drops(size), rate, at_least=15_000)
    yield row("catalog_apply, tables that nobody wants", measure_unfollowed(size), rate, at_least=100_000)
    yield row(
        "first load of a table with two columns, once listed",
        measure_first_load(size),
        "partitions/s",
        at_least=10_000,
    )


def open_catalog(source: MemorySource, directory: str, pattern: str = f"{DB}.*") -> CatalogProjection:
    metastore: Any = source
    store = SqliteStore(Path(directory) / "catalog.db", schema_version=1)
    follower = TimelineFollower(Rules((Rule((pattern,), columns=("dt",)),), lens=False))
    made = CatalogProjection(source_name="s", source=metastore, store=store, followers=[follower])
    made.open()
    made.load_all()
    return made


def measure_apply(source: MemorySource, pattern: str, make: Callable[[], None]) -> float:
    """Apply the events that ``make`` appends to the log, and return the events per second."""
    with tempfile.TemporaryDirectory() as directory:
        projection = open_catalog(source, directory, pattern)
        start = len(source.events)
        make()
        events = source.events[start:]
        started_s = time.perf_counter()
        for first in range(0, len(events), BATCH):
            projection.apply(events[first : first + BATCH])
        taken_s = time.perf_counter() - started_s
        projection.close()
    return len(events) / taken_s


def create_tables(columns: Sequence[str]) -> MemorySource:
    source = MemorySource()
    for number in range(TABLES):
        source.create(f"t{number}", columns)
    return source


def add_partitions(source: MemorySource, columns: Sequence[str], size: int) -> None:
    for number in range(size):
        minute = UpdatePeriod.MINUTELY.format(FIRST + number // TABLES)
        source.add(f"t{number % TABLES}", minute, *["de"] * (len(columns) - 1))


def measure_adds(columns: Sequence[str], size: int, pattern: str = f"{DB}.*") -> float:
    source = create_tables(columns)
    return measure_apply(source, pattern, lambda: add_partitions(source, columns, size))


def measure_unfollowed(size: int) -> float:
    return measure_adds(["dt"], size, "other.*")


def measure_adds_and_drops(size: int) -> float:
    source = create_tables(["dt", "x"])

    def make() -> None:
        minutes = count(FIRST)
        for _ in range(size // 2):
            value = UpdatePeriod.MINUTELY.format(next(minutes))
            source.add("t0", value, "de")
            source.drop("t0", value, "de")

    return measure_apply(source, f"{DB}.*", make)


def measure_first_load(size: int) -> float:
    source = MemorySource()
    source.create("t0")
    for number in range(size):
        source.add("t0", UpdatePeriod.MINUTELY.format(FIRST + number), "de")
    with tempfile.TemporaryDirectory() as directory:
        started_s = time.perf_counter()
        projection = open_catalog(source, directory)
        taken_s = time.perf_counter() - started_s
        projection.close()
    return size / taken_s


if __name__ == "__main__":
    main(
        "catalog",
        {
            "apply": apply_cases,
            "readers": reader_cases,
            "loads": load_cases,
            "load_readers": load_reader_cases,
        },
    )
