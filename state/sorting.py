"""Sorts long sequences in steps, for a thread that shares the interpreter with others.

``sorted`` of a million values is one call: no other thread of the process runs for some tenths of a second. Here every step takes a few
milliseconds. Listings usually arrive in order, which one pass finds out.
"""

from __future__ import annotations

import operator
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


T = TypeVar("T", str, int)
STEP: Final = 20_000
"""Values that are compared or sorted in one call."""


def sort_in_steps(items: Sequence[T], pause: Callable[[], None] = lambda: None) -> Sequence[T]:
    """Return the items in order, repeated ones included; the same sequence where it is in order. ``pause`` is called between steps."""
    if _is_sorted(items, pause):
        return items
    parts = []
    for start in range(0, len(items), STEP):
        parts.append(sorted(items[start : start + STEP]))
        pause()
    return _collect(merge(*parts), pause)


def _is_sorted(items: Sequence[Any], pause: Callable[[], None]) -> bool:
    for start in range(0, len(items), STEP):
        part = items[start : start + STEP + 1]
        if not all(map(operator.le, part, islice(part, 1, None))):
            return False
        pause()
    return True


def _collect(merged: Any, pause: Callable[[], None]) -> list[Any]:
    found: list[Any] = []
    while part := list(islice(merged, STEP)):
        found += part
        pause()
    return found
