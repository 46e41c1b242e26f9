"""Cases of the load of one large table while events of another table are applied. Both run in one process, as
in the daemon, with calls in a separate thread.

It measures the duration of the load, and the longest time for which events waited for the load (the longest
call of ``apply`` or ``settle``). That is measured in wall time, and in processor time of the process, which
does not depend on other processes. Further figures are the longest time between two heartbeats of the
follower, the longest WAL file, and the peak of the process's memory above that before the load. Meanwhile
another process syncs a small file in the same directory, because committing an event takes at least as long
as that.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from bench.catalog_listing import LARGE, RecordedSource, format_minute
from bench.report import Row, row
from daemon.service.lifecycle import SWITCH_S
from dev.fixtures.memory_source import DB
from handlers.catalog.following.background import CallThread
from handlers.catalog.following.ports import Follower
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.rules import Rule, Rules
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from state.store.sqlite import SqliteStore


EVENTS_AT_ONCE: Final = 20
"""Events in each batch of the other table."""
READERS: Final = 16
ASKED: Final = 10_000
"""Partitions of the table that readers filter."""
SYNC_PROGRAM: Final = """
import os, sys, time
file, longest_s = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), 0.0
print("begun", flush=True)
while os.getppid() == int(sys.argv[2]):
    began_s = time.perf_counter()
    os.pwrite(file, bytes(4096), 0)
    os.fdatasync(file)
    longest_s = max(longest_s, time.perf_counter() - began_s)
    if os.path.exists(sys.argv[1] + ".end"):
        break
    time.sleep(0.02)
print(longest_s)
"""


def load_cases(quick: bool) -> Iterator[Row]:
    partitions = 20_000 if quick else 1_000_000
    yield from _measure("partition index", [_index()], partitions)
    yield from _measure("timelines", [_timelines()], partitions)
    yield from _measure("both", [_timelines(), _index()], partitions)


def load_reader_cases(quick: bool) -> Iterator[Row]:
    partitions = 20_000 if quick else 200_000
    yield from _measure(f"both, {READERS} readers", [_timelines(), _index()], partitions, readers=READERS)


def _index() -> PartitionFollower:
    return PartitionFollower(PartitionRules((f"{DB}.*",)))


def _timelines() -> TimelineFollower:
    return TimelineFollower(Rules((Rule((f"{DB}.*",), columns=("dt",)),), lens=False))


def _measure(name: str, followers: Sequence[Follower], partitions: int, *, readers: int = 0) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        with _measuring_syncs(Path(directory) / "sync") as longest_sync_s:
            found = _Case(followers, partitions, Path(directory)).load(readers)
        synced_s = longest_sync_s[0]
    title = f"load of {partitions:,} partitions, {name}"
    size = f"{partitions / 1e6:g}m"
    yield row(title, partitions / found.load_s, "partitions/s")
    yield row(f"load_{size}_longest_block, {name}", found.blocked_s * 1e3, "ms", at_most=100)
    yield row(f"load_{size}_longest_block, {name}, processor time", found.blocked_cpu_s * 1e3, "ms")
    yield row(f"load_{size}_longest_sync of another file, {name}", synced_s * 1e3, "ms")
    yield row(f"load_{size}_latest_heartbeat, {name}", found.silent_s, "s", at_most=2)
    yield row(f"load_{size}_longest_log, {name}", found.wal_bytes / 1e6, "MB", at_most=200)
    yield row(f"load_{size}_peak, {name}", found.peak_bytes / 1e6, "MB", at_most=300)
    if readers:
        yield row(f"load_{size}_filters_answered, {name}", found.answered, "filters", at_least=1)


@contextmanager
def _measuring_syncs(path: Path) -> Iterator[list[float]]:
    """Sync a small file in another process during the block; provide the longest time at the end."""
    found: list[float] = []
    command = [sys.executable, "-c", SYNC_PROGRAM, str(path), str(os.getpid())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield found
        finally:
            path.with_suffix(".end").touch()
        found.append(float(process.stdout.read()))


@dataclass(frozen=True, slots=True)
class _Load:
    """The costs of a load; ``peak_bytes`` is the peak of memory above that before the load."""

    load_s: float
    blocked_s: float
    blocked_cpu_s: float
    silent_s: float
    wal_bytes: int
    peak_bytes: int
    answered: int
    """The number of filters answered for readers."""


class _Case:
    def __init__(self, followers: Sequence[Follower], partitions: int, directory: Path) -> None:
        self._source = RecordedSource(partitions, directory)
        self._source.create("small")
        self._source.create("asked")
        for number in range(ASKED):
            self._source.add("asked", format_minute(number), str(number % 7))
        self._beats: list[float] = []
        self._blocked_s: list[float] = []
        self._blocked_cpu_s: list[float] = []
        self._wal = directory / "catalog.db-wal"
        metastore: Any = self._source
        self._projection = CatalogProjection(
            source_name="s",
            source=metastore,
            store=SqliteStore(directory / "catalog.db", schema_version=1, snapshots=True),
            followers=followers,
            beat=lambda: self._beats.append(time.perf_counter()),
            calls=CallThread(metastore, "calls"),
        )
        sys.setswitchinterval(SWITCH_S)
        self._index = next((one for one in followers if isinstance(one, PartitionFollower)), None)
        if self._index is not None:
            self._index.turns = self._projection.turns
        self._projection.open()
        self._settle()

    def load(self, readers: int) -> _Load:
        """Load the large table while readers filter another table."""
        self._source.create(LARGE)
        self._projection.apply(self._source.events[self._projection.position.event_id :])
        self._projection.request_load(f"{DB}.{LARGE}")
        gc.collect()
        gc.freeze()
        idle_bytes = peak_bytes = _memory_bytes()
        wal_bytes = 0
        with self._reading(readers) as answered:
            started_s = time.perf_counter()
            self._beats[:] = [started_s]
            while self._projection.states.is_waiting(f"{DB}.{LARGE}"):
                events = self._events()
                self._measure(partial(self._projection.apply, events))
                self._measure(self._projection.settle)
                peak_bytes = max(peak_bytes, _memory_bytes())
                wal_bytes = max(wal_bytes, self._wal.stat().st_size)
            ended_s = time.perf_counter()
        silences = [later - earlier for earlier, later in pairwise([*self._beats, ended_s])]
        self._projection.close()
        gc.unfreeze()
        return _Load(
            ended_s - started_s,
            max(self._blocked_s),
            max(self._blocked_cpu_s),
            max(silences),
            wal_bytes,
            peak_bytes - idle_bytes,
            sum(answered),
        )

    @contextmanager
    def _reading(self, readers: int) -> Iterator[list[int]]:
        """Run readers during the block; provide the number of filters that each reader has answered."""
        stop, answered = threading.Event(), [0] * readers

        def ask(reader: int) -> None:
            assert self._index is not None
            while not stop.is_set():
                with self._index.snapshot() as snapshot:
                    text = f"dt like '2015-01-0%' and x != '{reader % 7}'"
                    snapshot.lookups(f"{DB}.asked").by_filter(text).count()
                answered[reader] += 1

        threads = [threading.Thread(target=ask, args=(reader,)) for reader in range(readers)]
        for thread in threads:
            thread.start()
        try:
            yield answered
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def _measure(self, call: Callable[[], object]) -> None:
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        call()
        self._blocked_cpu_s.append(time.process_time() - began_cpu_s)
        self._blocked_s.append(time.perf_counter() - began_s)

    def _events(self) -> Sequence[Any]:
        start = len(self._source.events)
        for number in range(start, start + EVENTS_AT_ONCE // 2):
            self._source.add("small", format_minute(number), "x")
            self._source.drop("small", format_minute(number), "x")
        found = self._source.events[start:]
        # Count only from here
        self._source.events[start:] = [None] * len(found)  # type: ignore[list-item]
        return found

    def _settle(self) -> None:
        while not self._projection.is_surveyed or self._projection.states.waiting():
            self._projection.settle()


def _memory_bytes() -> int:
    """Return the resident memory of the process, as Linux counts it."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
