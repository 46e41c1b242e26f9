"""How entries of the store lie in an HBase table.

One HBase row per entry, in one column family; its row key is the entry's key behind one byte, because HBase knows no empty
row key and because the room's own two rows stand before all others::

    00 versions   p:next        the last version drawn (a counter)
    00 writes     p:0, p:1 ..   a transaction that is taking effect (``writes``)
    01 <key>      p:v           the value
                  p:0 .. p:n-1  of a partition's row only: its fields, for HBase's filters

Keys are those of ``state.partitions.index.records``, with a table number where the issue of the seed had database and table: one
layout for every store, so that the same plan runs on all of them, and a renamed table costs one entry and not all of its rows.

Cells carry versions that the room draws itself and not the server's clock. With clocks a deletion and a new value of the same
millisecond leave nothing, a clock that was set back hides what is written, and a message that was repeated late undoes
what came after it.
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
FAMILIES: Final = {
    # The interface's defaults switch off what makes single rows fast to find.
    FAMILY.decode(): {"max_versions": 1, "bloom_filter_type": "ROW", "block_cache_enabled": True}
}
_ENTRIES: Final = b"\x01"
_BEHIND_ENTRIES: Final = b"\x02"

Cells = dict[bytes, bytes]


def row_key(key: bytes) -> bytes:
    """Return the row key of an entry."""
    return _ENTRIES + key


def entry_key(row: bytes) -> bytes:
    """Return the key of the entry in a row."""
    return row[len(_ENTRIES) :]


def row_range(start: bytes, end: bytes | None) -> tuple[bytes, bytes]:
    """Return the row keys that hold the entries with ``start <= key < end``."""
    return row_key(start), _BEHIND_ENTRIES if end is None else row_key(end)


def numbered_cell(number: int) -> bytes:
    """Return the name of the cell with one field of a partition's row, or with one part of a transaction."""
    return FAMILY + b":%d" % number


def cells(key: bytes, value: bytes) -> Cells:
    """Return the cells of an entry."""
    if kind_of(key) is not EntryKind.ROW:
        return {VALUE: value}
    fields = {numbered_cell(column): partition_key.field(key, column) for column in range(key[-1])}
    return {VALUE: value, **fields}


def smallest_cell(key: bytes) -> bytes:
    """Return the name of the smallest cell that every entry of this kind has: what tells that it is there."""
    return numbered_cell(0) if kind_of(key) is EntryKind.ROW else VALUE
