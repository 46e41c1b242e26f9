"""Checking one key against a whole filter, on its bytes: fields are cut out of the key and compared, nothing is decoded.

Only LIKE with more than a prefix has to see the text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from state.partitions.bound import All, Bound, Leaf
from state.partitions.intervals import contains
from state.partitions.keys import field
from state.partitions.sortable import VALUE, unterminated


if TYPE_CHECKING:
    from state.partitions.like import Like


Check = Callable[[bytes], bool]
_TEXT: Final = len(VALUE)


def check_of(bound: Bound) -> Check:
    """Return a function that tells of a key whether its partition matches."""
    if isinstance(bound, Leaf):
        return _text_check(bound, bound.like) if bound.like else _set_check(bound)
    checks = [check_of(child) for child in bound.children]
    if isinstance(bound, All):
        return lambda key: all(check(key) for check in checks)
    return lambda key: any(check(key) for check in checks)


def _set_check(leaf: Leaf) -> Check:
    column = leaf.column
    lows = [interval.lo for interval in leaf.intervals]
    highs = [interval.hi for interval in leaf.intervals]
    if len(lows) == 1:
        low, high = lows[0], highs[0]
        return lambda key: low <= field(key, column) < high
    return lambda key: contains(lows, highs, field(key, column))


def _text_check(leaf: Leaf, like: Like) -> Check:
    inside = _set_check(leaf)

    def check(key: bytes) -> bool:
        text = unterminated(field(key, leaf.column)[_TEXT:]) if inside(key) else None
        return text is not None and like.matches(text.decode(errors="surrogatepass"))

    return check
