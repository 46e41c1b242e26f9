"""Long sequences in pieces, for calls with a limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar, overload


T = TypeVar("T")


@overload
def in_pieces(items: list[T], size: int) -> Iterator[list[T]]: ...
@overload
def in_pieces(items: tuple[T, ...], size: int) -> Iterator[tuple[T, ...]]: ...
@overload
def in_pieces(items: Sequence[T], size: int) -> Iterator[Sequence[T]]: ...
def in_pieces(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield slices of at most ``size`` items, in order; none of an empty sequence."""
    return (items[start : start + size] for start in range(0, len(items), size))
