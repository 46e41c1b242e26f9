"""The layout of the store's entries in an HBase table, and conditions on its cells.

Each entry is one HBase row in one column family. The row key is the entry's key after one byte, because HBase
does not allow an empty row key and because the store's own rows come before all others::

    00 undo <version 8><number 4>  p:0, p:1 ..  what an open transaction has overwritten (``undo_log``)
    00 versions   p:next        the last version drawn (a counter)
    00 writes     p:0, p:1 ..   the transaction that is being applied (``redo_log``)
    01 <key>      p:v           the value
                  p:0 .. p:n-1  only in the row of a partition: its fields, for HBase's filters

Keys are those of ``state.partitions.index.records``, with a table number instead of database and table. So
every store has the same layout and runs the same plan, and renaming a table writes one entry instead of all
its rows.

Cells carry versions that this package draws itself, instead of the server's clock. With a clock, a deletion
and a new value in the same millisecond leave nothing, a clock set back hides new values, and a late repeated
message undoes later ones.

Conditions on partitions are written in HBase's filter language, as far as it can express them. Every row of a
partition has a cell for each field, with the same sortable bytes as in its key, and HBase compares bytes. So
an interval ``low <= field < high`` is exactly two ``SingleColumnValueFilter``. Filters on the row key itself
would not work: the start of a field differs from key to key, and regular expressions read bytes as UTF-8. A
part that cannot be expressed is left out of an AND and makes a whole OR inexpressible. So HBase may return
too many keys and never too few. Only the client checks LIKE and long lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from state.partitions.filters.conditions import AllOf, Condition, Leaf
from state.partitions.filters.intervals import Interval
from state.partitions.index.records import EntryKind, kind_of
from state.partitions.keys import partition_key


FAMILY: Final = b"p"
VALUE: Final = b"p:v"
NEXT_VERSION: Final = b"p:next"
VERSIONS_ROW: Final = b"\x00versions"
WRITES_ROW: Final = b"\x00writes"
UNDO_ROWS: Final = b"\x00undo"
"""The prefix of the rows of the undo log."""
BEHIND_UNDO_ROWS: Final = b"\x00undp"
FAMILIES: Final = {
    # The Thrift interface's defaults turn off the options that make look-ups of single rows fast.
    FAMILY.decode(): {"max_versions": 1, "bloom_filter_type": "ROW", "block_cache_enabled": True}
}
_ENTRIES: Final = b"\x01"
_BEHIND_ENTRIES: Final = b"\x02"
KEYS_ONLY: Final = b"KeyOnlyFilter()"
"""Makes HBase send cells without their values."""
INTERVALS_MAX: Final = 64
"""Longer lists cost the region servers more than sending the keys does."""
FILTER_BYTES_MAX: Final = 16 * 1024

Cells = dict[bytes, bytes]


def row_key(key: bytes) -> bytes:
    """Return the row key of an entry."""
    return _ENTRIES + key


def entry_key(row: bytes) -> bytes:
    """Return the entry's key from a row key."""
    return row[len(_ENTRIES) :]


def row_range(start: bytes, end: bytes | None) -> tuple[bytes, bytes]:
    """Return the row keys that hold the entries with ``start <= key < end``."""
    return row_key(start), _BEHIND_ENTRIES if end is None else row_key(end)


def undo_row(version: int, number: int) -> bytes:
    """Return the key of a row of the undo log; the order of keys is the order of writing."""
    return UNDO_ROWS + version.to_bytes(8) + number.to_bytes(4)


def numbered_cell(number: int) -> bytes:
    """Return the name of the cell for one field of a partition, or for one part of a transaction."""
    return FAMILY + b":%d" % number


def cells(key: bytes, value: bytes) -> Cells:
    """Return the cells of an entry."""
    if kind_of(key) is not EntryKind.ROW:
        return {VALUE: value}
    fields = {numbered_cell(column): partition_key.field(key, column) for column in range(key[-1])}
    return {VALUE: value, **fields}


def smallest_cell(key: bytes) -> bytes:
    """Return the name of the smallest cell that every entry of this kind has, to check whether it exists."""
    return numbered_cell(0) if kind_of(key) is EntryKind.ROW else VALUE


def write_filter(condition: Condition) -> bytes:
    """Return the filter for keys without values; it selects all keys if HBase's filter language cannot
    express the condition.
    """
    written = _write(condition)
    if written is None or len(written) > FILTER_BYTES_MAX:
        return KEYS_ONLY
    return written + b" AND " + KEYS_ONLY


def compared_columns(condition: Condition) -> frozenset[int]:
    """Return the columns that a condition compares; HBase must read their cells."""
    if isinstance(condition, Leaf):
        return frozenset([condition.column])
    return frozenset().union(*map(compared_columns, condition.children))


def _write(condition: Condition) -> bytes | None:
    if isinstance(condition, Leaf):
        return _write_leaf(condition)
    parts = [_write(child) for child in condition.children]
    if isinstance(condition, AllOf):
        return _join(b" AND ", [part for part in parts if part is not None])
    expressible = [part for part in parts if part is not None]
    return _join(b" OR ", expressible) if len(expressible) == len(parts) else None


def _write_leaf(leaf: Leaf) -> bytes | None:
    """Write the intervals of one field, without the text match of LIKE."""
    if not 0 < len(leaf.intervals) <= INTERVALS_MAX:
        return None
    written = (b" AND ".join(_write_comparisons(leaf.column, each)) for each in leaf.intervals)
    return _join(b" OR ", [b"(" + each + b")" for each in written])


def _write_comparisons(column: int, interval: Interval) -> Iterator[bytes]:
    for operator, field in ((b">=", interval.lo), (b"<", interval.hi)):
        quoted = field.replace(b"'", b"''")
        # false: a row without the cell passes; true: the newest version is compared
        yield b"SingleColumnValueFilter('%s', '%d', %s, 'binary:%s', false, true)" % (
            FAMILY,
            column,
            operator,
            quoted,
        )


def _join(word: bytes, parts: list[bytes]) -> bytes | None:
    return b"(" + word.join(parts) + b")" if parts else None
