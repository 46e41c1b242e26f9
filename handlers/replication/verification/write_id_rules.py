"""Compares the write-id lists of one table on both sides, and knows which ids either metastore may have forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.replication.verification.findings import Difference, Finding, NotCompared
from state.transactions.valid_write_ids import ValidWriteIds, WriteIdState, compare_write_ids


if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


_INVISIBLE: Final = frozenset({WriteIdState.ABORTED, WriteIdState.HIDDEN})


def compare_lists(
    source: ValidWriteIds, target: ValidWriteIds, *, written: Collection[int], compacted_up_to: int
) -> Iterator[Finding]:
    """Yield the write ids for which readers of the two sides see other rows.

    The source forgets an aborted id when nothing is left of its files; the id then looks committed there, while the target may
    still know that it was aborted. No reader misses rows if the source has no files of the id (``written`` has those that do).
    If the source has compacted its files (``compacted_up_to``), this cannot be determined; the ids are not compared.
    """
    for found in compare_write_ids(source, target):
        forgotten = found.source is WriteIdState.VISIBLE and found.target in _INVISIBLE
        if forgotten and not any(found.first <= each <= found.last for each in written):
            if found.first <= compacted_up_to:
                yield NotCompared("write-ids", min(found.last, compacted_up_to) - found.first + 1)
            continue
        ids = str(found.first) if found.first == found.last else f"{found.first}-{found.last}"
        yield Difference("write-ids", ids, found.source.value, found.target.value)
