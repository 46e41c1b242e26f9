"""The redo log: a transaction as one HBase row, and its application entry by entry.

HBase writes one row at a time. So a commit has three steps:

1. ``write`` stores the whole transaction as one row;
2. ``apply`` applies it entry by entry;
3. ``remove`` deletes the row.

If a process is killed between these steps, the row remains, and the next process repeats step 2. All writes
carry versions, so applying a transaction twice has the effect of applying it once, and later writes remain.

Puts come in the order of ``EntryKind`` (requirements of rows, postings, rows, tables), then removals in the
reverse order. So every row has all its postings at every moment, and every table its rows. A reader at the
same time may see postings without a row, which readers ignore, and rows of a table that does not exist yet or
any more, which are never read.

The bytes of a transaction are: u64 version; then for each put, deletion and range a tag and its parts, each
with a u32 length.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from handlers.failpoints import failpoint
from handlers.hbase import layout
from handlers.hbase.gateway import Gateway
from handlers.hbase.layout import KEYS_ONLY
from state.errors import StateCorrupt
from state.partitions.index.records import EntryKind, kind_of


_VERSION: Final = struct.Struct(">Q")
_HEAD: Final = struct.Struct(">cI")
_PUT, _DELETE, _FROM, _TO, _TO_LAST, _UP_TO = b"p", b"d", b"f", b"t", b"l", b"u"


class ClearedRange(NamedTuple):
    """A range of entries to remove, except those newer than a version."""

    start: bytes
    end: bytes | None
    version: int

    def has(self, key: bytes, version: int) -> bool:
        """Whether the range removes an entry of this version."""
        return version <= self.version and self.start <= key and (self.end is None or key < self.end)


@dataclass(frozen=True, slots=True)
class Writes:
    """The writes of a transaction: entries to put and delete with one version, and ranges to clear before
    that.
    """

    version: int
    puts: dict[bytes, bytes] = field(default_factory=dict)
    deletes: list[bytes] = field(default_factory=list)
    cleared: list[ClearedRange] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.puts or self.deletes or self.cleared)

    def to_bytes(self) -> bytes:
        """Return the writes as bytes."""
        parts = [_VERSION.pack(self.version)]
        for key, value in self.puts.items():
            parts += [_HEAD.pack(_PUT, len(key)), key, _HEAD.pack(_TO, len(value)), value]
        for key in self.deletes:
            parts += [_HEAD.pack(_DELETE, len(key)), key]
        for start, end, version in self.cleared:
            end_bytes = b"" if end is None else end
            parts += [_HEAD.pack(_FROM, len(start)), start]
            parts += [_HEAD.pack(_TO_LAST if end is None else _TO, len(end_bytes)), end_bytes]
            parts += [_HEAD.pack(_UP_TO, _VERSION.size), _VERSION.pack(version)]
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> Writes:
        """Read the output of ``to_bytes``; raise StateCorrupt for anything else."""
        try:
            return cls._parse(data)
        except (struct.error, ValueError, StopIteration) as error:
            raise StateCorrupt(
                "the interrupted transaction on HBase cannot be read", size_bytes=len(data)
            ) from error

    @classmethod
    def _parse(cls, data: bytes) -> Writes:
        writes = cls(_VERSION.unpack_from(data)[0])
        parts = _parts(data, _VERSION.size)
        for tag, first in parts:
            if tag == _PUT:
                writes.puts[first] = _next_part(parts, _TO)
            elif tag == _DELETE:
                writes.deletes.append(first)
            elif tag == _FROM:
                kind, end = next(parts)
                if kind not in {_TO, _TO_LAST}:
                    raise ValueError(kind)
                version = _VERSION.unpack(_next_part(parts, _UP_TO))[0]
                writes.cleared.append(ClearedRange(first, end if kind == _TO else None, version))
            else:
                raise ValueError(tag)
        return writes


def _parts(data: bytes, at: int) -> Iterator[tuple[bytes, bytes]]:
    while at < len(data):
        tag, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if at + length > len(data):
            raise ValueError(length)
        yield tag, data[at : at + length]
        at += length


def _next_part(parts: Iterator[tuple[bytes, bytes]], tag: bytes) -> bytes:
    actual, value = next(parts)
    if actual != tag:
        raise ValueError(actual)
    return value


CELL_BYTES_MAX: Final = 4 << 20
"""HBase refuses cells larger than 10 MB."""
CLEARED_AT_ONCE: Final = 4096


def write(gateway: Gateway, writes: Writes) -> None:
    """Write a transaction as one row; after this returns it will take effect, even after a crash."""
    gateway.put({layout.WRITES_ROW: split_cells(writes.to_bytes())}, writes.version)


def read(gateway: Gateway) -> Writes | None:
    """Return the incomplete transaction, or None; raise StateCorrupt if it is unreadable."""
    row = gateway.rows([layout.WRITES_ROW], [layout.FAMILY]).get(layout.WRITES_ROW)
    if row is None:
        return None
    return Writes.from_bytes(join_cells(row.cells))


def split_cells(data: bytes) -> layout.Cells:
    """Return bytes of any length as the cells of one row."""
    parts = (data[at : at + CELL_BYTES_MAX] for at in range(0, len(data), CELL_BYTES_MAX))
    return {layout.numbered_cell(number): part for number, part in enumerate(parts)}


def join_cells(cells: layout.Cells) -> bytes:
    """Return the bytes that ``split_cells`` has split."""
    names = map(layout.numbered_cell, range(len(cells)))
    return b"".join(cells.get(name, b"") for name in names)


def remove(gateway: Gateway, writes: Writes) -> None:
    """Remove the row of a transaction that has been applied."""
    gateway.delete([layout.WRITES_ROW], writes.version)


def apply(gateway: Gateway, writes: Writes) -> None:
    """Apply a transaction; may be repeated at any time, even after later transactions."""
    for kind in EntryKind:
        put_kind(gateway, writes, kind)
        failpoint(f"hbase-put-{kind.name.lower()}")
    for kind in reversed(EntryKind):
        delete_kind(gateway, writes, kind)
        failpoint(f"hbase-deleted-{kind.name.lower()}")


def put_kind(gateway: Gateway, writes: Writes, kind: EntryKind) -> None:
    """Put the entries of one kind."""
    entries = {key: value for key, value in writes.puts.items() if kind_of(key) is kind}
    gateway.put(
        {layout.row_key(key): layout.cells(key, value) for key, value in entries.items()}, writes.version
    )


def delete_kind(gateway: Gateway, writes: Writes, kind: EntryKind) -> None:
    """Delete the entries of one kind, and clear the ranges that begin with this kind."""
    removed = [key for key in writes.deletes if kind_of(key) is kind]
    gateway.delete(map(layout.row_key, removed), writes.version)
    for cleared in writes.cleared:
        if kind_of(cleared.start) is kind:
            _clear_range(gateway, cleared)


def _clear_range(gateway: Gateway, cleared: ClearedRange) -> None:
    rows = layout.row_range(cleared.start, cleared.end)
    while rows[0] < rows[1]:
        page = gateway.scan(rows, [layout.VALUE], CLEARED_AT_ONCE, KEYS_ONLY)
        gateway.delete((row.row for row in page if row.version <= cleared.version), cleared.version)
        if len(page) < CLEARED_AT_ONCE:
            return
        rows = page[-1].row + b"\x00", rows[1]
