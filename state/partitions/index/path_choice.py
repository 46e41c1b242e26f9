"""Chooses the access path of a filter: the one whose ranges contain the fewest keys.

The part of the key that a path fixes says little about the number of keys. So the keys of all possible paths are read side by side, in rounds, and
the path that ends first is taken. This reads at most about twice as many keys of each path as the answer will. Where no single path
is short, each alternative of an OR may have its own. Planning a filter is cached.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from state.partitions.index.key_ranges import AccessPath, find_candidates, find_ranges
from state.partitions.index.scan_plans import MultiScanPlan
from state.store import prefix_end


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from state.partitions.index.records import IndexedTable
    from state.partitions.index.scan_plans import FilterPlan, ScanPlan
    from state.store import Reader


PROBED_KEYS: Final = tuple(32 << number for number in range(14))
"""Keys that are read of each possible path to find the shortest, in rounds that continue each other."""
PROBED_KEYS_MAX: Final = 1 << 20
"""Keys that are read of all paths together; where it does not suffice, the path that fixes most of the key is taken."""
FEW_KEYS: Final = 256
"""An answer that reads no more keys is not planned further."""
ALTERNATIVES_MAX: Final = 64
"""Boxes for which a path each is considered, where no single path is short."""
_PROBE_SLACK: Final = 4
"""Keys that do not matter: among nearly equal paths, the one that fixes most of the key."""


class PathChoice:
    """A choice for one table in one local store."""

    def __init__(self, reader: Reader, table: IndexedTable) -> None:
        self._reader = reader
        self._table = table
        self._columns = len(table.key_schema.columns)

    def choose(self, plan: FilterPlan) -> tuple[Sequence[AccessPath], int | None]:
        """Return the path with the fewest keys, or several for the alternatives of an OR where that is fewer.

        The number of their keys is returned if there was a choice and it was counted completely.
        """
        boxes = plan.plans()
        paths = find_candidates(plan, self._columns)
        if paths[0].exact or (len(paths) == 1 and len(boxes) <= 1):
            return paths[:1], None  # there is nothing to choose
        path, size = self._choose_path(plan)
        counted = size if size < max(self._rounds(len(paths))) else None
        if size <= FEW_KEYS or not 1 < len(boxes) <= ALTERNATIVES_MAX:
            return [path], counted
        apart, total = self._choose_each(boxes, size // 2)
        return (apart, total) if total <= size // 2 else ([path], counted)

    def _choose_each(self, boxes: Sequence[ScanPlan], most: int) -> tuple[list[AccessPath], int]:
        """Return a path for every group of boxes that share their best one, and the number of keys; gives up above ``most``."""
        groups: dict[int | None, list[ScanPlan]] = {}
        total = 0
        for box in boxes:
            path, size = self._choose_path(box)
            groups.setdefault(path.column, []).append(box)
            total += size
            if total > most:
                break
        return [
            find_ranges(MultiScanPlan(tuple(group)), self._columns, at) for at, group in groups.items()
        ], total

    def _choose_path(self, plan: FilterPlan) -> tuple[AccessPath, int]:
        """Return the path with the fewest keys and their number, or how many were read where that does not show it."""
        paths = find_candidates(plan, self._columns)
        unread = [self._entries(path) for path in paths]
        sizes, limit = [0] * len(paths), 0
        for limit in self._rounds(len(paths)):
            for number, entries in enumerate(unread):
                sizes[number] += sum(1 for _ in islice(entries, limit - sizes[number]))
            ended = [size for size in sizes if size < limit]
            if ended:
                enough = min(limit - 1, min(ended) + _PROBE_SLACK)
                return next((path, size) for path, size in zip(paths, sizes, strict=True) if size <= enough)
        return paths[0], limit

    @staticmethod
    def _rounds(paths: int) -> Iterator[int]:
        """Yield the keys of each path that the rounds of a choice between this number of paths end at."""
        for number, limit in enumerate(PROBED_KEYS):
            if number and limit * paths > PROBED_KEYS_MAX:
                return
            yield limit

    def _entries(self, access: AccessPath) -> Iterator[bytes]:
        """Yield something for every range of a path and for every key in it: what reading it costs."""
        prefix = self._table.prefix(access.column)
        for start, end in access.ranges:
            yield start
            yield from self._reader.scan_keys(
                prefix + start, prefix_end(prefix) if end is None else prefix + end
            )
