"""Checking one key against a whole filter, on its bytes: fields are cut out of the key and compared, nothing is decoded.

Only LIKE with more than a prefix has to see the text.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from state.partitions.bound import AllOf, Bound, Leaf
from state.partitions.intervals import contains
from state.partitions.sortable import VALUE, unterminated


Check = Callable[[bytes], bool]
_STARTS: Final = struct.Struct(">HH")
_REMEMBERED: Final = 1 << 14


def check_of(bound: Bound, columns: int) -> Check:
    """Return a function that tells of a key with so many columns whether its partition matches."""
    if isinstance(bound, Leaf):
        return _field_check(bound, columns)
    checks = [check_of(child, columns) for child in bound.children]
    if len(checks) == 2:
        one, other = checks
        return (
            (lambda key: one(key) and other(key))
            if isinstance(bound, AllOf)
            else (lambda key: one(key) or other(key))
        )
    if isinstance(bound, AllOf):
        return lambda key: all(check(key) for check in checks)
    return lambda key: any(check(key) for check in checks)


def _field_check(leaf: Leaf, columns: int) -> Check:
    """Cut the field out as ``keys.field`` does, without a call for each key."""
    starts, tail, at = _STARTS.unpack_from, 2 * columns + 3, 2 * leaf.column
    if len(leaf.intervals) == 1 and leaf.like is None:
        low, high = leaf.intervals[0][:2]

        def within(key: bytes) -> bool:
            end = len(key) - tail
            start, after = starts(key, end + at)
            return low <= key[end - start : end - after] < high

        return within
    holds = _holds(leaf)

    def check(key: bytes) -> bool:
        end = len(key) - tail
        start, after = starts(key, end + at)
        return holds(key[end - start : end - after])

    return check


def _holds(leaf: Leaf) -> Callable[[bytes], bool]:
    inside = _membership(leaf)
    if leaf.like is None:
        return inside
    like = leaf.like

    # Few values make up many partitions: each text is looked at once.
    @lru_cache(maxsize=_REMEMBERED)
    def holds(field: bytes) -> bool:
        return inside(field) and like.matches(
            unterminated(field[len(VALUE) :]).decode(errors="surrogatepass")
        )

    return holds


def _membership(leaf: Leaf) -> Callable[[bytes], bool]:
    lows = [interval.lo for interval in leaf.intervals]
    highs = [interval.hi for interval in leaf.intervals]
    return lambda field: contains(lows, highs, field)
