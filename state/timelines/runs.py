"""Runs: a set of ordinals, kept as the edges of its runs of consecutive members.

Partitions usually come in order and are seldom missing, so a year of minutes is one run instead of half a
million members. The edges are in one sorted array: start, end, start, end and so on (ends excluded). An
ordinal is a member if the number of edges at or below it is odd. Existence is therefore one binary search, an
interval operation is one slice, and a run costs 16 bytes.

A bitmap would cost time per member for loading and listing runs, needs a compiled library, and is better only
if every second member is missing. A tree would be slower below about 100,000 runs: moving a slice of an array
is cheaper than rebalancing.

An array creates an integer for every edge that a search looks at. A frequently queried set therefore has a
map with one byte for each ordinal between its ends, until it changes. A look-up there takes less time,
however many runs there are. Only the newest maps of the process stay: together they never take more than 64
MiB.

The class promises exact set semantics for every sequence of operations; ``check()`` asserts the invariant.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise, starmap
from typing import Final
from weakref import ref

from state.timelines.sorting import STEP


FULL: Final = "\N{FULL BLOCK}"
PARTLY: Final = "\N{MEDIUM SHADE}"
NONE: Final = "\N{MIDDLE DOT}"
_MAP_BYTES_MAX: Final = 1 << 20
"""Ordinals between the ends of a set with a map: two years of minutes."""
_MAP_AFTER: Final = 1024
"""Number of look-ups after which a map is worth its cost."""
_MAPS_MAX: Final = 64
_mapped: Final[deque[ref[Runs]]] = deque()
"""The sets with a map, the newest last."""


class Runs:
    """An ordered set of 64-bit integers, kept as runs of consecutive members."""

    __slots__ = ("__weakref__", "_edges", "_lookups_left", "_map", "_map_start")

    def __init__(self, edges: Iterable[int] = ()) -> None:
        """Take strictly increasing edges, even in number, as ``edges()`` returns them."""
        self._edges = array("q", edges)
        self._lookups_left = _MAP_AFTER
        """Look-ups until a map is made, if the set is suitable then."""
        self._map: bytes | None = None
        self._map_start = 0

    @staticmethod
    def of(ordinals: Iterable[int]) -> Runs:
        """Build from members in any order, with or without repetition:
        n log n, and linear for sorted members.
        """
        members = sorted(ordinals)
        if not members:
            return Runs()
        breaks = [edge for left, right in pairwise(members) if right - left > 1 for edge in (left + 1, right)]
        return Runs([members[0], *breaks, members[-1] + 1])

    @staticmethod
    def of_sorted(ordinals: Sequence[int], pause: Callable[[], None] = lambda: None) -> Runs:
        """Build from members in order, with or without repetition,
        in steps of some milliseconds with ``pause`` between them.
        """
        edges = array("q", ordinals[:1])
        last = edges[0] if edges else 0
        for start in range(0, len(ordinals), STEP):
            part = ordinals[start : start + STEP]
            for left, right in pairwise(chain((last,), part)):
                if right - left > 1:
                    edges.extend((left + 1, right))
            last = part[-1]
            pause()
        if edges:
            edges.append(last + 1)
        return Runs(edges)

    def copy(self) -> Runs:
        """Return an independent copy, at the cost of one memory copy."""
        return Runs(self._edges)

    def add(self, ordinal: int) -> bool:
        """Add an ordinal; return False if it was already there."""
        edges = self._edges
        at = bisect_right(edges, ordinal)
        if at & 1:
            return False
        self._map = None
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
        """Remove an ordinal; return False, without any change, if it was not there."""
        edges = self._edges
        at = bisect_right(edges, ordinal)
        if not at & 1:
            return False
        self._map = None
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
            self._map = None

    def update(self, ordinals: Iterable[int]) -> int:
        """Add ordinals in any order and return how many were new."""
        before, fresh = self.count(), Runs.of(ordinals)
        if len(fresh) > 16:
            self._edges = _merge(self._edges, fresh.edges())
            self._map = None
        else:
            for start, end in fresh.pairs():
                self.add_range(start, end)
        return self.count() - before

    def __contains__(self, ordinal: int) -> bool:
        found = self._map
        if found is None:
            self._lookups_left -= 1
            if not self._lookups_left:
                self._make_map()
            return bisect_right(self._edges, ordinal) & 1 == 1
        try:
            return ordinal >= self._map_start and found[ordinal - self._map_start] == 1
        except IndexError:
            return False

    def _make_map(self) -> None:
        """Make the map if the set is small enough, and drop the oldest of many."""
        self._lookups_left = _MAP_AFTER
        if not self._edges or self._edges[-1] - self._edges[0] > _MAP_BYTES_MAX:
            return
        start, end = self._edges[0], self._edges[-1]
        made = bytearray(end - start)
        for first, after in self.pairs():
            made[first - start : after - start] = b"\x01" * (after - first)
        self._map_start, self._map = start, bytes(made)
        _mapped.append(ref(self))
        while len(_mapped) > _MAPS_MAX:
            oldest = _mapped.popleft()()
            if oldest is not None and oldest is not self:
                oldest._map = None  # noqa: SLF001 - another instance of this class

    def run_at(self, ordinal: int) -> tuple[int, int] | None:
        """Return the run [start, end) that contains the ordinal, or None."""
        at = bisect_right(self._edges, ordinal)
        return (self._edges[at - 1], self._edges[at]) if at & 1 else None

    def between(self, start: int, end: int) -> array[int]:
        """Return the edges of the runs in [start, end), cut at both bounds:
        the only walk that covering needs.
        """
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
        """Assert that edges are even in number and strictly increasing:
        runs are disjoint, not empty and not adjacent.
        """
        assert len(self._edges) % 2 == 0, self
        assert all(left < right for left, right in pairwise(self._edges)), self
        if self._map is not None:
            members = {at + self._map_start for at, present in enumerate(self._map) if present}
            assert members == set(self), self


def draw_bar(runs: Runs, width: int) -> str:
    """Return the runs, from the first to the last member, as one line of at most ``width`` cells.

    A cell is full, partly filled or empty. It stands for at least one member, so few members give a short
    line.
    """
    assert width > 0, width
    first, last = runs.first, runs.last
    if first is None or last is None:
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
    """Merge two edge arrays in one pass. Bulk loads need this, because inserting run by run would move the
    array each time.
    """
    merged: array[int] = array("q")
    for start, end in sorted(
        chain(zip(left[::2], left[1::2], strict=True), zip(right[::2], right[1::2], strict=True))
    ):
        if not merged or merged[-1] < start:
            merged.extend((start, end))
        elif merged[-1] < end:
            merged[-1] = end
    return merged
