"""The layout of the store's entries in an HBase table.

Each entry is one HBase row in one column family. The row key is the entry's key after one byte, because HBase does not allow an
empty row key and because the store's own rows come before all others::

    00 undo <version 8><number 4>  p:0, p:1 ..  what an open transaction has overwritten (``undo_log``)
    00 versions   p:next        the last version drawn (a counter)
    00 writes     p:0, p:1 ..   the transaction that is being applied (``redo_log``)
    01 <key>      p:v           the value
                  p:0 .. p:n-1  only in the row of a partition: its fields, for HBase's filters

Keys are those of ``state.partitions.index.records``, with a table number where the seed document has database and table. So every
store has the same layout and runs the same plan, and renaming a table writes one entry instead of all its rows.

Cells carry versions that this package draws itself, instead of the server's clock. With a clock, a deletion and a new value in the
same millisecond leave nothing, a clock that was set back hides new values, and a late repeated message undoes later ones.
"""

from __future__ import annotations

from typing import Final

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
    # The Thrift interface's defaults turn off what makes look-ups of single rows fast.
    FAMILY.decode(): {"max_versions": 1, "bloom_filter_type": "ROW", "block_cache_enabled": True}
}
_ENTRIES: Final = b"\x01"
_BEHIND_ENTRIES: Final = b"\x02"

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
