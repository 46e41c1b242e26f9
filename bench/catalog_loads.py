"""The load of one large table while events of another are applied, in one process, as in the daemon: calls in a thread of their own.

Measured are the duration of the load, the longest time that events waited for it (the longest call of ``apply`` or ``settle``, in wall
time, and in processor time of the thread, which does not depend on other processes), the longest time between two signs of life of the
follower, and the peak of the process's memory above that before the load. The listing is generated when it is read, so the figures
contain no fixture.
"""

from __future__ import annotations

import gc
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.report import Row, row
from dev.fixtures.hive_tables import a_partition
from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.following.background import CallThread
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.rules import Rule, Rules
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from state.store.sqlite import SqliteStore
from state.timelines.periods import UpdatePeriod


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from handlers.catalog.following.ports import Follower
    from handlers.structs.objects import Partition


EVENTS_AT_ONCE: Final = 20
"""Events in each batch of the other table."""


def load_cases(quick: bool) -> Iterator[Row]:
    partitions = 20_000 if quick else 1_000_000
    everything = (f"{DB}.*",)
    followers: dict[str, Follower] = {
        "partition index": PartitionFollower(PartitionRules(everything)),
        "timelines": TimelineFollower(Rules((Rule(everything, columns=("dt",)),), lens=False)),
    }
    for name, follower in followers.items():
        with tempfile.TemporaryDirectory() as directory:
            yield from _measure(name, follower, partitions, Path(directory))


def _measure(name: str, follower: Follower, partitions: int, directory: Path) -> Iterator[Row]:
    found = _Case(follower, partitions, directory).load()
    title = f"load of {partitions:,} partitions into the {name}"
    yield row(title, partitions / found.load_s, "partitions/s")
    yield row(f"load_1m_longest_block, {name}", found.blocked_s * 1e3, "ms", at_most=100)
    yield row(f"load_1m_longest_block, {name}, processor time", found.blocked_cpu_s * 1e3, "ms")
    yield row(f"load_1m_latest_heartbeat, {name}", found.silent_s, "s", at_most=2)
    yield row(f"load_1m_peak, {name}", found.peak_bytes / 1e6, "MB", at_most=300)


@dataclass(frozen=True, slots=True)
class _Load:
    """What a load took; ``peak_bytes`` is above the memory before it."""

    load_s: float
    blocked_s: float
    blocked_cpu_s: float
    silent_s: float
    peak_bytes: int


class _LargeSource(MemorySource):
    """A source with one table whose partitions exist only while they are listed."""

    def __init__(self, partitions: int) -> None:
        super().__init__()
        self._count = partitions

    def partition_names(self, db: str, name: str) -> list[str]:
        if name != "large":
            return super().partition_names(db, name)
        return [f"dt={_minute(number // 2)}/x={number % 2}" for number in range(self._count)]

    def get_partitions(self, db: str, name: str, names: Sequence[str]) -> list[Partition]:
        if name != "large":
            return super().get_partitions(db, name, names)
        table = self.tables[name]
        values = [[part.partition("=")[2] for part in one.split("/")] for one in names]
        return [a_partition(table, *one, parameters={"numRows": "7", "totalSize": "4711"}) for one in values]


class _Case:
    def __init__(self, follower: Follower, partitions: int, directory: Path) -> None:
        self._source = _LargeSource(partitions)
        self._source.create("small")
        self._beats: list[float] = []
        self._blocked_s: list[float] = []
        self._blocked_cpu_s: list[float] = []
        metastore: Any = self._source
        self._projection = CatalogProjection(
            source_name="s",
            source=metastore,
            store=SqliteStore(directory / "catalog.db", schema_version=1, snapshots=True),
            followers=[follower],
            beat=lambda: self._beats.append(time.perf_counter()),
            calls=CallThread(metastore, "calls"),
        )
        self._projection.open()
        self._settle()

    def load(self) -> _Load:
        """Load the large table."""
        self._source.create("large")
        self._projection.apply(self._source.events[self._projection.position.event_id :])
        self._projection.request_load(f"{DB}.large")
        gc.collect()
        gc.freeze()
        idle_bytes = peak_bytes = _memory_bytes()
        started_s = time.perf_counter()
        self._beats[:] = [started_s]
        while self._projection.states.is_waiting(f"{DB}.large"):
            events = self._events()
            self._measure(partial(self._projection.apply, events))
            self._measure(self._projection.settle)
            peak_bytes = max(peak_bytes, _memory_bytes())
        ended_s = time.perf_counter()
        silences = [later - earlier for earlier, later in pairwise([*self._beats, ended_s])]
        self._projection.close()
        return _Load(
            ended_s - started_s,
            max(self._blocked_s),
            max(self._blocked_cpu_s),
            max(silences),
            peak_bytes - idle_bytes,
        )

    def _measure(self, call: Callable[[], object]) -> None:
        began_s, began_cpu_s = time.perf_counter(), time.thread_time()
        call()
        self._blocked_cpu_s.append(time.thread_time() - began_cpu_s)
        self._blocked_s.append(time.perf_counter() - began_s)

    def _events(self) -> Sequence[Any]:
        start = len(self._source.events)
        for number in range(start, start + EVENTS_AT_ONCE // 2):
            self._source.add("small", _minute(number), "x")
            self._source.drop("small", _minute(number), "x")
        found = self._source.events[start:]
        self._source.events[start:] = [None] * len(found)  # type: ignore[list-item]  # only counted from now on
        return found

    def _settle(self) -> None:
        while not self._projection.is_surveyed or self._projection.states.waiting():
            self._projection.settle()


def _minute(number: int) -> str:
    return UpdatePeriod.MINUTELY.format(_FIRST + number)


def _memory_bytes() -> int:
    """Return the resident memory of the process, as Linux counts it."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


_FIRST: Final = UpdatePeriod.MINUTELY.parse("2015-01-01-00-00")
