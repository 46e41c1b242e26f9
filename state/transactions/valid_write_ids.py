"""Valid write-id lists: which rows of a transactional table a reader may see.

Every transaction that writes into a table allocates a write id of that table, and the name of its files'
directory contains that id. A reader gets a list: the high-water mark, and the ids below it that do not count
(open or aborted). Files under any other id up to the mark count. Hive passes the list as text,
``db.tbl:hwm:minOpen:open,…:aborted,…`` (ValidReaderWriteIdList.writeToString).

A list does not contain ids that compaction or the cleaner has forgotten: they look committed.
``compare_write_ids`` allows for that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Final

from state.errors import BadInput, LimitExceeded


NO_OPEN_WRITE_ID: Final = 2**63 - 1
"""Hive's lowest open write id if none is open (Long.MAX_VALUE)."""

IDS_MAX: Final = 10_000_000
"""Limit of invalid ids in one list; Hive itself stops working long before."""


class WriteIdState(Enum):
    """State of one write id in a list."""

    VISIBLE = "visible"
    """Committed, or forgotten by compaction: rows under it count."""
    OPEN = "open"
    ABORTED = "aborted"
    UNALLOCATED = "unallocated"
    """Above the high-water mark."""
    HIDDEN = "hidden"
    """Above the high-water mark of a possibly cut list: invisible, for an unknown reason."""


@dataclass(frozen=True, slots=True)
class WriteIdDifference:
    """Consecutive write ids, ``first`` to ``last`` inclusive, about which two lists disagree."""

    first: int
    last: int
    source: WriteIdState
    target: WriteIdState

    def __str__(self) -> str:
        """``7-9: visible at the source, unallocated at the target``."""
        ids = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{ids}: {self.source.value} at the source, {self.target.value} at the target"


@dataclass(frozen=True, slots=True)
class ValidWriteIds:
    """One table's list; ``open`` and ``aborted`` are ascending, disjoint and within 1 to ``high_water_mark``.

    ``table`` is ``db.tbl`` as the receiving metastore calls it: a list for the target has the target's name.
    """

    table: str
    high_water_mark: int
    open: tuple[int, ...] = ()
    aborted: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Raise BadInput for a list that is out of order or out of bounds,
        because lists come from outside.
        """
        if self.high_water_mark < 0:
            raise BadInput(
                "the high-water mark is below 0", table=self.table, high_water_mark=self.high_water_mark
            )
        for ids in (self.open, self.aborted):
            if len(ids) > IDS_MAX:
                raise LimitExceeded("too many write ids", table=self.table, count=len(ids), limit=IDS_MAX)
            if ids and (
                ids[0] < 1 or ids[-1] > self.high_water_mark or any(a >= b for a, b in pairwise(ids))
            ):
                raise BadInput(
                    "write ids must be ascending, between 1 and the high-water mark",
                    table=self.table,
                    high_water_mark=self.high_water_mark,
                )
        if self.open and self.aborted and not set(self.open).isdisjoint(self.aborted):
            raise BadInput("a write id is both open and aborted", table=self.table)

    @property
    def min_open(self) -> int | None:
        """Return the lowest open write id, or None."""
        return self.open[0] if self.open else None

    def has_open_up_to(self, write_id: int) -> bool:
        """Whether ``write_id`` or a lower one is open; readers then skip a compacted base with this write id
        (ValidReaderWriteIdList.isValidBase).
        """
        return self.min_open is not None and self.min_open <= write_id

    @property
    def may_be_cut(self) -> bool:
        """Whether ids above the high-water mark may already have allocations.

        If a table has only invalid writes without compaction, Hive 4 returns the lowest invalid id as the
        high-water mark and as the only invalid id (TxnHandler.getValidWriteIdsForTable). Ids above stay
        invisible, so readers are right, but the mark is not the last id. Read the highest allocated id
        separately if it matters.
        """
        return self.open + self.aborted == (self.high_water_mark,)

    def is_visible(self, write_id: int) -> bool:
        """Whether a reader counts the rows under ``write_id``;
        0 is the data from before the table had write ids.
        """
        return self.state_of(write_id) is WriteIdState.VISIBLE

    def state_of(self, write_id: int) -> WriteIdState:
        """Return the state of ``write_id`` in this list, in O(log n)."""
        if write_id > self.high_water_mark:
            return WriteIdState.HIDDEN if self.may_be_cut else WriteIdState.UNALLOCATED
        if _contains(self.open, write_id):
            return WriteIdState.OPEN
        return WriteIdState.ABORTED if _contains(self.aborted, write_id) else WriteIdState.VISIBLE

    def format(self) -> str:
        """Return Hive's text form."""
        minimum = NO_OPEN_WRITE_ID if self.min_open is None else self.min_open
        return f"{self.table}:{self.high_water_mark}:{minimum}:{_join(self.open)}:{_join(self.aborted)}"

    @staticmethod
    def from_reply(
        table: str, high_water_mark: int, invalid_ids: Sequence[int], aborted_bits: bytes
    ) -> ValidWriteIds:
        """Read the fields of Thrift's ``TableValidWriteIds``; raises BadInput.

        ``aborted_bits`` is a Java BitSet over the positions of ``invalid_ids``, lowest bit of the first byte
        first (bits 0, 2 and 9 are ``05 02``), with trailing zero bytes left out.
        """
        bits = int.from_bytes(aborted_bits, "little")
        if bits >> len(invalid_ids):
            raise BadInput("aborted bits beyond the invalid write ids", table=table, count=len(invalid_ids))
        aborted = tuple(sorted(w for i, w in enumerate(invalid_ids) if _has_bit(aborted_bits, i)))
        opened = tuple(sorted(w for i, w in enumerate(invalid_ids) if not _has_bit(aborted_bits, i)))
        return ValidWriteIds(table, high_water_mark, opened, aborted)


def compare_write_ids(source: ValidWriteIds, target: ValidWriteIds) -> tuple[WriteIdDifference, ...]:
    """Return the ids, ascending, for which readers of ``target`` and ``source`` do not see the same rows;
    empty if equal.

    Ignores names. An id is equal if both sides have the same state for it, and in these cases:

    * Aborted at the source, and visible, unallocated or hidden at the target. The target's cleaner forgets
      replayed aborts within seconds, and a bootstrap or a compaction does not transfer them. No file of an
      aborted id was ever copied, so no row can appear.
    * Hidden on one side and not visible on the other: no reader sees rows, and a cut list does not say why.

    An id that is open on one side and visible, aborted or unallocated on the other is always a difference:
    the two lists belong to different events, or a replayed transaction hangs.
    """
    differences: list[WriteIdDifference] = []
    for first, last in _cut_into_spans(source, target):
        at_source, at_target = source.state_of(first), target.state_of(first)
        if _is_equal(at_source, at_target):
            continue
        follows = differences and differences[-1].last + 1 == first
        if follows and (differences[-1].source, differences[-1].target) == (at_source, at_target):
            differences[-1] = replace(differences[-1], last=last)
        else:
            differences.append(WriteIdDifference(first, last, at_source, at_target))
    return tuple(differences)


_INVISIBLE: Final = frozenset(
    {WriteIdState.OPEN, WriteIdState.ABORTED, WriteIdState.UNALLOCATED, WriteIdState.HIDDEN}
)


def _is_equal(source: WriteIdState, target: WriteIdState) -> bool:
    if source is target:
        return True
    if WriteIdState.HIDDEN in {source, target} and {source, target} <= _INVISIBLE:
        return True
    if WriteIdState.OPEN in {source, target}:
        return False
    return source is WriteIdState.ABORTED


def _cut_into_spans(source: ValidWriteIds, target: ValidWriteIds) -> list[tuple[int, int]]:
    """Cut 1 to the higher mark into spans of uniform state in both lists: few, however high the marks are."""
    top = max(source.high_water_mark, target.high_water_mark)
    special = {*source.open, *source.aborted, *target.open, *target.aborted}
    marks = {source.high_water_mark + 1, target.high_water_mark + 1}
    cuts = {1, top + 1} | marks | special | {write_id + 1 for write_id in special}
    starts = sorted(cut for cut in cuts if 1 <= cut <= top + 1)
    return [(first, following - 1) for first, following in pairwise(starts)]


def _contains(ids: tuple[int, ...], write_id: int) -> bool:
    at = bisect_left(ids, write_id)
    return at < len(ids) and ids[at] == write_id


def _has_bit(bits: bytes, position: int) -> bool:
    return position // 8 < len(bits) and bool(bits[position // 8] >> position % 8 & 1)


def _join(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))
