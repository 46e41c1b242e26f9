"""Histories of partitions that writers add and drop while readers list them,
and what a reader must and must not have seen.

Each partition has one writer, so its changes follow one another. A reader must see a partition whose last
change before the read was an add, unless a later change began before the read ended; and the same for drops.
Times are of one clock.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Change:
    """One call of a writer."""

    value: str
    exists: bool
    """Whether the partition exists afterwards."""
    began_s: float
    ended_s: float


@dataclass(frozen=True)
class Read:
    """One call of a reader: the values among ``asked`` that it returned."""

    asked: frozenset[str]
    found: frozenset[str]
    began_s: float
    ended_s: float


@dataclass
class History:
    """What writers and readers did."""

    changes: list[Change] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    def violations(self) -> list[tuple[Read, str]]:
        """Return each read with a value that it missed, or that it should have missed."""
        return [
            (read, value)
            for read in self.reads
            for value in sorted(read.asked)
            if (value in read.found) not in self._possible(value, read)
        ]

    def overlapping(self) -> int:
        """Return how many changes were under way while another one was."""
        ordered = sorted(self.changes, key=lambda one: one.began_s)
        found, end_s = 0, 0.0
        for one in ordered:
            found += one.began_s < end_s
            end_s = max(end_s, one.ended_s)
        return found

    def _possible(self, value: str, read: Read) -> set[bool]:
        """Return whether the partition may have existed at some moment of the read."""
        before = [one for one in self.changes if one.value == value and one.ended_s < read.began_s]
        during = [
            one
            for one in self.changes
            if one.value == value and one.ended_s >= read.began_s and one.began_s <= read.ended_s
        ]
        return {before[-1].exists if before else False, *(one.exists for one in during)}


def write(
    history: History, values: list[str], changes: int, change: Callable[[str, bool], None], seed: int
) -> None:
    """Make a number of changes: add what does not exist and drop what does."""
    drawn, existing = random.Random(seed), set[str]()  # noqa: S311 - a test's history
    for _ in range(changes):
        value = drawn.choice(values)
        exists = value not in existing
        began_s = time.perf_counter()
        change(value, exists)
        history.changes.append(Change(value, exists, began_s, time.perf_counter()))
        existing ^= {value}


def run_all(history: History, *tasks: Callable[[], None]) -> None:
    """Run each task in a thread of its own until all have ended; their failures are in the history."""

    def run(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - reported in the test's own thread
            history.failures.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
