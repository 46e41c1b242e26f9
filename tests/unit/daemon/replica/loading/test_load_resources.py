"""The copies of loads are part of the counts of their policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from daemon.replica.loading.load_resources import LoadCopies
from handlers.files.copying.pool import CopyCounters, CopyPool


@dataclass
class FakePool:
    """The counts of a copy pool."""

    done: CopyCounters = field(default_factory=CopyCounters)
    queued: int = 0

    def counters(self) -> CopyCounters:
        """Return the counts."""
        return self.done

    def pending(self) -> tuple[int, int]:
        """Return the queued and running copies."""
        return self.queued, 1


def test_the_copies_of_all_loads_are_counted_also_of_one_that_runs() -> None:
    pools: list[FakePool] = []

    def build() -> CopyPool:
        pools.append(FakePool())
        return cast("CopyPool", pools[-1])

    copies = LoadCopies(build)
    assert (copies.total(), copies.pending()) == (CopyCounters(), 0)
    for number in (1, 2, 3):
        opened: Any = copies.open()
        opened.done = CopyCounters(files=number, size_bytes=10 * number, failed=1, seconds=0.5)
        opened.queued = number
        assert copies.pending() == number + 1
    assert copies.total() == CopyCounters(files=6, size_bytes=60, failed=3, seconds=1.5)
