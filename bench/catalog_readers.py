"""Cases of readers and a writer in one process: many threads filter a table while its events are applied.

It measures the events per second, relative to the same number of events without readers (the median of some
pairs of measurements), the longest time between two heartbeats of the follower, and the number of answered
filters.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import truediv
from pathlib import Path
from typing import Any, Final

from bench.report import Row, row
from daemon.service.lifecycle import SWITCH_S
from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.following.background import CallThread
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from handlers.events import Event
from state.store.sqlite import SqliteStore


READERS: Final = 16
PAIRS: Final = 3
"""Measurements without and with readers, in turn."""
BATCH: Final = 500
FILTERS: Final = (
    "ds >= '2024-01-10' and hr like '1%'",
    "hr = '7' and region != 'r3'",
    "ds like '2024-02-%' and region = 'r5'",
    "region between 'r2' and 'r4' and ds != '2024-01-01'",
)
"""Filters that read and check many keys."""


def reader_cases(quick: bool) -> Iterator[Row]:
    partitions = 20_000 if quick else 100_000
    events = 5_000 if quick else 20_000
    alone, beside, latest_s, answered = [], [], [], 0
    with tempfile.TemporaryDirectory() as directory:
        case = _Case(Path(directory), partitions)
        for _ in range(PAIRS):
            alone.append(case.apply(events)[0])
            with case.readers() as counts:
                rate, heartbeat_s = case.apply(events)
            beside.append(rate)
            latest_s.append(heartbeat_s)
            answered += sum(counts)
        case.projection.close()
    ratio = statistics.median(map(truediv, beside, alone))
    title = f"{READERS} readers with filters on {partitions:,} partitions"
    yield row("apply_with_16_readers, relative to no readers", ratio, "times", at_least=0.5)
    yield row(
        f"{title}: events applied",
        statistics.median(beside),
        "events/s",
        rival=("without readers", statistics.median(alone)),
    )
    yield row(f"{title}: latest heartbeat", max(latest_s), "s", at_most=2)
    yield row(f"{title}: filters answered meanwhile", answered, "filters", at_least=1)


class _Case:
    """A table of many partitions, its projection, and batches of events about it."""

    def __init__(self, directory: Path, partitions: int) -> None:
        self.source = MemorySource()
        self.source.create("t", ("ds", "hr", "region"))
        for number in range(partitions):
            self.source.add("t", *_values(number))
        self.follower = PartitionFollower(PartitionRules((f"{DB}.*",)))
        self.beats: list[float] = []
        metastore: Any = self.source
        self.projection = CatalogProjection(
            source_name="s",
            source=metastore,
            store=SqliteStore(directory / "catalog.db", schema_version=1, snapshots=True),
            followers=[self.follower],
            beat=lambda: self.beats.append(time.perf_counter()),
            calls=CallThread(metastore, "calls"),
        )
        sys.setswitchinterval(SWITCH_S)
        self.follower.turns = self.projection.turns
        self.projection.open()
        self.projection.load_all()
        self.next = partitions

    def apply(self, count: int) -> tuple[float, float]:
        """Apply ``count`` events; return events per second and the longest time between two heartbeats."""
        start = len(self.source.events)
        for number in range(self.next, self.next + count // 2):
            self.source.add("t", *_values(number))
            self.source.drop("t", *_values(number))
        self.next += count // 2
        gc.collect()
        # Otherwise, garbage collections of the fixture's million objects, which a daemon does not have, would
        # count as delays.
        gc.freeze()
        events: Sequence[Event] = self.source.events[start:]
        self.beats[:] = [time.perf_counter()]
        for first in range(0, len(events), BATCH):
            self.projection.apply(events[first : first + BATCH])
        ended_s = time.perf_counter()
        gaps = [
            later - earlier for earlier, later in zip(self.beats, [*self.beats[1:], ended_s], strict=True)
        ]
        return len(events) / (ended_s - self.beats[0]), max(gaps)

    @contextmanager
    def readers(self) -> Iterator[list[int]]:
        """Run the readers during the block; provide the number of filters that each reader has answered."""
        stop, answered = threading.Event(), [0] * READERS

        def ask(reader: int) -> None:
            while not stop.is_set():
                with self.follower.snapshot() as snapshot:
                    text = FILTERS[(reader + answered[reader]) % len(FILTERS)]
                    snapshot.lookups(f"{DB}.t").by_filter(text).count()
                answered[reader] += 1

        threads = [threading.Thread(target=ask, args=(reader,)) for reader in range(READERS)]
        for thread in threads:
            thread.start()
        yield answered
        stop.set()
        for thread in threads:
            thread.join()


def _values(number: int) -> tuple[str, str, str]:
    day, rest = divmod(number, 240)
    return f"{2024 + day // 360}-{day // 30 % 12 + 1:02}-{day % 30 + 1:02}", str(rest // 10), f"r{rest % 10}"
