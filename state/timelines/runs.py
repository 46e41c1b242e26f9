"""Runs: a set of ordinals, kept as the edges of its runs of consecutive members.

Partitions usually come in order and are seldom missing, so a year of minutes is one run instead of half a million members.
The edges are in one sorted array: start, end, start, end and so on (ends excluded). An ordinal is a member if the number of
edges at or below it is odd. Existence is therefore one binary search, an interval operation is one slice, and a run costs 16
bytes.

A bitmap would cost time per member for loading and listing runs, needs a compiled library, and is better only if every second
member is missing. A tree would be slower below about 100,000 runs, where moving a slice of an array is cheaper than
rebalancing.

An array creates an integer for every edge that a search looks at. So a set that is asked often is also kept as a list, which searches a
fifth faster, until it changes.

Promises exact set semantics for every sequence of operations; ``check()`` asserts the invariant.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import chain, pairwise, starmap
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


FULL: Final = "\N{FULL BLOCK}"
PARTLY: Final = "\N{MEDIUM SHADE}"
NONE: Final = "\N{MIDDLE DOT}"
_LISTED_MAX: Final = 1 << 16
"""Edges of a set that is also kept as a list: at most 2.6 MB."""
_LISTED_AFTER: Final = 8
"""A set is kept as a list after a look-up for every so many edges, so that the copy pays."""


class Runs:
    """An ordered set of 64-bit integers, kept as runs of consecutive members."""

    __slots__ = ("_edges", "_listed", "_lookups")

    def __init__(self, edges: Iterable[int] = ()) -> None:
        """Take strictly increasing edges, even in number, as ``edges()`` returns them."""
        self._edges = array("q", edges)
        self._listed: list[int] | None = None
        self._lookups = 0

    @staticmethod
    def of(ordinals: Iterable[int]) -> Runs:
        """Build from members in any order, with or without repetition: n log n, and linear for sorted members."""
        members = sorted(ordinals)
        if not members:
            return Runs()
        breaks = [edge for left, right in pairwise(members) if right - left > 1 for edge in (left + 1, right)]
        return Runs(chain((members[0],), breaks, (members[-1] + 1,)))

    @staticmethod
    def of_pairs(pairs: Iterable[tuple[int, int]]) -> Runs:
        """Build from [start, end) pairs in any order, overlapping or not."""
        runs = Runs()
        for start, end in pairs:
            runs.add_range(start, end)
        return runs

    def copy(self) -> Runs:
        """Return an independent copy, at the cost of one memory copy."""
        return Runs(self._edges)

    def add(self, ordinal: int) -> bool:
        """Add one; return False if it was already there."""
        edges = self._edges
        at = bisect_right(edges, ordinal)
        if at & 1:
            return False
        self._listed = None
        follows = at > 0 and edges[at - 1] == ordinal
        precedes = at < len(edges) and edges[at] == ordinal + 1
        if follows and precedes:
            del edges[at - 1 : at + 1]
        elif follows:
            edges[at - 1] = ordinal + 1
        elif precedes:
            edges[at] = ordinal
        else:
            edges[at:at] = array("q", (ordinal, ordinal + 1))
        return True

    def drop(self, ordinal: int) -> bool:
        """Remove one; return False, without any change, if it was not there."""
        edges = self._edges
        at = bisect_right(edges, ordinal)
        if not at & 1:
            return False
        self._listed = None
        starts = edges[at - 1] == ordinal
        ends = edges[at] == ordinal + 1
        if starts and ends:
            del edges[at - 1 : at + 1]
        elif starts:
            edges[at - 1] = ordinal + 1
        elif ends:
            edges[at] = ordinal
        else:
            edges[at:at] = array("q", (ordinal, ordinal + 1))
        return True

    def add_range(self, start: int, end: int) -> None:
        """Add all of [start, end); an empty range changes nothing."""
        if start < end:
            low, high = bisect_left(self._edges, start), bisect_right(self._edges, end)
            outer = ([] if low & 1 else [start]) + ([] if high & 1 else [end])
            self._edges[low:high] = array("q", outer)
            self._listed = None

    def update(self, ordinals: Iterable[int]) -> int:
        """Add many in any order and return how many were new."""
        before, fresh = self.count(), Runs.of(ordinals)
        if len(fresh) > 16:
            self._edges = _merge(self._edges, fresh.edges())
            self._listed = None
        else:
            for start, end in fresh.pairs():
                self.add_range(start, end)
        return self.count() - before

    def __contains__(self, ordinal: int) -> bool:
        return bisect_right(self._listed or self._choose_edges(), ordinal) & 1 == 1

    def _choose_edges(self) -> Sequence[int]:
        self._lookups += 1
        if self._lookups * _LISTED_AFTER < len(self._edges) or len(self._edges) > _LISTED_MAX:
            return self._edges
        self._lookups = 0
        self._listed = list(self._edges)
        return self._listed

    def run_at(self, ordinal: int) -> tuple[int, int] | None:
        """Return the run [start, end) that contains the ordinal, or None."""
        at = bisect_right(self._edges, ordinal)
        return (self._edges[at - 1], self._edges[at]) if at & 1 else None

    def between(self, start: int, end: int) -> array[int]:
        """Return the edges of the runs in [start, end), cut at both bounds: the only walk that covering needs."""
        low, high = bisect_right(self._edges, start), bisect_left(self._edges, end)
        part = self._edges[low:high]
        if low & 1:
            part.insert(0, start)
        if high & 1:
            part.append(end)
        return part

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Yield the [start, end) pairs that are missing between the first and the last member."""
        inner = self._edges[1:-1]
        return zip(inner[::2], inner[1::2], strict=True)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the runs as [start, end), in order."""
        return zip(self._edges[::2], self._edges[1::2], strict=True)

    def edges(self) -> array[int]:
        """Return a copy of the edges, from which ``Runs(edges)`` builds the same set."""
        return self._edges[:]

    @property
    def first(self) -> int | None:
        """Return the smallest member, or None."""
        return self._edges[0] if self._edges else None

    @property
    def last(self) -> int | None:
        """Return the largest member, or None."""
        return self._edges[-1] - 1 if self._edges else None

    def count(self) -> int:
        """Return the number of members; ``len()`` is the number of runs."""
        return sum(self._edges[1::2]) - sum(self._edges[::2])

    def size_bytes(self) -> int:
        """Return the memory that the edges take."""
        return len(self._edges) * self._edges.itemsize

    def __len__(self) -> int:
        return len(self._edges) >> 1

    def __bool__(self) -> bool:
        return bool(self._edges)

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(starmap(range, self.pairs()))

    def __eq__(self, other: object) -> bool:
        return self._edges == other._edges if isinstance(other, Runs) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # mutable, so not a key

    def __repr__(self) -> str:
        return f"Runs({[(start, end) for start, end in self.pairs()]!r})"

    def check(self) -> None:
        """Assert that edges are even in number and strictly increasing: runs are disjoint, not empty and not adjacent."""
        assert len(self._edges) % 2 == 0, self
        assert all(left < right for left, right in pairwise(self._edges)), self
        assert self._listed is None or self._listed == list(self._edges), self


def draw_bar(runs: Runs, width: int, start: int | None = None, end: int | None = None) -> str:
    """Return [start, end) as one line of at most ``width`` cells; by default from the first to the last member.

    A cell is full, partly filled or empty. It stands for at least one member, so few members give a short line.
    """
    assert width > 0, width
    first = runs.first if start is None else start
    last = runs.last if end is None else end - 1
    if first is None or last is None or last < first:
        return ""
    total = last + 1 - first
    cells = min(width, total)
    edges = [first + total * cell // cells for cell in range(cells + 1)]
    return "".join(_draw_cell(runs, low, high) for low, high in pairwise(edges))


def _draw_cell(runs: Runs, low: int, high: int) -> str:
    inside = runs.between(low, high)
    if not inside:
        return NONE
    return FULL if (inside[0], inside[1]) == (low, high) else PARTLY


def _merge(left: array[int], right: array[int]) -> array[int]:
    """Merge two edge arrays in one pass. Bulk loads need it: inserting run by run would move the array each time."""
    merged: array[int] = array("q")
    for start, end in sorted(
        chain(zip(left[::2], left[1::2], strict=True), zip(right[::2], right[1::2], strict=True))
    ):
        if not merged or merged[-1] < start:
            merged.extend((start, end))
        elif merged[-1] < end:
            merged[-1] = end
    return merged
