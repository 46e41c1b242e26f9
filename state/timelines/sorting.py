"""Sorts long sequences in steps, for a thread that shares the interpreter with others.

``sorted`` of a million values is one call: no other thread of the process runs for some tenths of a second.
Here every step takes a few milliseconds. Listings usually arrive in order, which one pass detects.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final, TypeVar


T = TypeVar("T", str, int)
STEP: Final = 20_000
"""Values in one call that compares or sorts."""


def sort_in_steps(items: Sequence[T], pause: Callable[[], None] = lambda: None) -> Sequence[T]:
    """Return the items in order, including repeated ones; if ``items`` is already in order, return it
    unchanged. Calls ``pause`` between steps.

    Numbers in an array stay in arrays: a million objects would be freed in one call at the end.
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
    """Remove all items of an obsolete list, with ``pause`` between steps, and free the objects that only it
    refers to.
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
