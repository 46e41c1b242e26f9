"""What a store across a network changes about reading the index: questions are bundled, and postings are looked behind.

A store without transactions writes postings before their row and removes them after it. So a posting may be seen whose
row is not there yet or not any more, and it counts only when its row is there. Rows speak for themselves.

A store that can leave out keys by itself may be given the filter; what it sends is checked all the same, so that it only has
to be right about what it leaves out.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from state.partitions import keys
from state.store import RemoteReader


if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator

    from state.partitions.bound import Bound
    from state.partitions.records import IndexedTable


AT_ONCE: Final = 512
"""Keys that are asked for together."""


@runtime_checkable
class FilteringReader(RemoteReader, Protocol):
    """A store that can tell of some keys of rows by itself that they do not match."""

    def scan_matching(self, start: bytes, end: bytes | None, bound: Bound) -> Iterator[bytes]:
        """Yield the keys of rows with ``start <= key < end`` in order, perhaps without some that ``bound`` excludes."""


def with_rows(
    reader: RemoteReader, table: IndexedTable, postings: Iterable[bytes], counts: Counter[str]
) -> Iterator[bytes]:
    """Yield those postings whose rows are there, in order; count the others as ``postings-dropped``."""
    left = iter(postings)
    while some := list(islice(left, AT_ONCE)):
        behind = [table.rows + keys.row_of(posting) for posting in some]
        there = reader.existing(behind)
        counts["postings-dropped"] += len(set(behind)) - len(there)
        yield from (posting for posting, row in zip(some, behind, strict=True) if row in there)
