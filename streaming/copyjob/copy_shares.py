"""How a list of copies is split into shares that take about the same time.

A share is the work of one task of a copy job. It is the unit that is repeated when a process is lost and the step in which progress
is reported, so shares are small. A file costs its bytes and a constant, because opening and publishing it takes time as well.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Sequence


FILE_COST_BYTES: Final = 1024 * 1024
"""What a file costs besides its bytes, in bytes that are copied in the same time."""
SHARE_COST_BYTES: Final = 256 * 1024 * 1024
SHARES_PER_SLOT: Final = 4
"""Shares for each task that runs at the same time, so that a slow machine takes fewer of them."""
SHARES_MAX: Final = 10_000


def copy_cost(size_bytes: int) -> int:
    """Return what the copy of a file of this size costs."""
    return size_bytes + FILE_COST_BYTES


def count_shares(costs: Sequence[int], slots: int) -> int:
    """Return into how many shares files of these costs are split if ``slots`` tasks run at the same time."""
    assert slots >= 1, slots
    wanted = max(-(-sum(costs) // SHARE_COST_BYTES), slots * SHARES_PER_SLOT)
    return min(wanted, len(costs), SHARES_MAX)


def split_shares(costs: Sequence[int], shares: int) -> list[list[int]]:
    """Return the indexes of ``costs`` in ``shares`` lists, none of them empty; the most expensive share comes first.

    Each file, in descending order of cost, goes to the share that is cheapest so far. No share then costs more than the mean and the
    largest file together.
    """
    assert 0 <= shares <= len(costs), (shares, len(costs))
    filled: list[list[int]] = [[] for _ in range(shares)]
    cheapest = [(0, number) for number in range(shares)]
    for index in sorted(range(len(costs)), key=lambda each: -costs[each]):
        cost, number = heapq.heappop(cheapest)
        filled[number].append(index)
        heapq.heappush(cheapest, (cost + costs[index], number))
    return [filled[number] for _, number in sorted(cheapest, key=lambda each: (-each[0], each[1]))]
