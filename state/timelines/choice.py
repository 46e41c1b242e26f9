"""Which storage tables answer: the fewest that together hold every stretch of a cover.

A query over one table is cheaper than a union over two, so the choice is made for the whole cover and not stretch by
stretch. It is a minimum hitting set over the few distinct sets of holders: exact up to a dozen storages, greedy beyond.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Collection


EXACT_MAX: Final = 12


def fewest_storages(holders: Collection[int], storages: int) -> int:
    """Return the bit mask of the chosen storages: it meets every mask of ``holders``.

    Where several choices are equally small, the one whose storages come first wins.
    """
    masks = set(holders)
    if all(masks) and storages <= EXACT_MAX:
        bits = [1 << number for number in range(storages)]
        return next(
            chosen
            for size in range(storages + 1)
            for chosen in map(sum, combinations(bits, size))
            if all(mask & chosen for mask in masks)
        )
    return _greedy(masks, storages)


def _greedy(masks: set[int], storages: int) -> int:
    chosen = 0
    left = {mask for mask in masks if mask}
    while left:
        best = max(range(storages), key=lambda number: (sum(mask >> number & 1 for mask in left), -number))
        chosen |= 1 << best
        left = {mask for mask in left if not mask & chosen}
    return chosen
