"""Sorts long sequences in steps, for a thread that shares the interpreter with others.

``sorted`` of a million values is one call: no other thread of the process runs for some tenths of a second.
Here every step takes a few milliseconds. Listings usually arrive in order, which one pass finds out.
"""

from __future__ import annotations

import operator
from array import array
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


T = TypeVar("T", str, int)
STEP: Final = 20_000
"""Values that are compared or sorted in one call."""


def sort_in_steps(items: Sequence[T], pause: Callable[[], None] = lambda: None) -> Sequence[T]:
    """Return the items in order, repeated ones included;
    the same sequence where it is in order. ``pause`` is called between steps.

    Numbers in an array are kept in arrays: a million objects would be freed in one call at the end.
    """
    if _is_sorted(items, pause):
        return items
    parts = []
    for start in range(0, len(items), STEP):
        part = sorted(items[start : start + STEP])
        parts.append(array(items.typecode, part) if isinstance(items, array) else part)
        pause()
    found: Sequence[T] = array(items.typecode) if isinstance(items, array) else []
    _collect(merge(*parts), found, pause)
    return found


def release_in_steps(items: list[Any], pause: Callable[[], None] = lambda: None) -> None:
    """Remove all items of a list that is not needed any more,
    with ``pause`` between steps: what only it refers to is freed.
    """
    while items:
        del items[-STEP:]
        pause()


def _is_sorted(items: Sequence[Any], pause: Callable[[], None]) -> bool:
    for start in range(0, len(items), STEP):
        part = items[start : start + STEP + 1]
        if not all(map(operator.le, part, islice(part, 1, None))):
            return False
        pause()
    return True


def _collect(merged: Any, found: Any, pause: Callable[[], None]) -> None:
    while part := list(islice(merged, STEP)):
        found.extend(part)
        pause()
