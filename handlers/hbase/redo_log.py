"""What a transaction will do, as a value and as bytes.

HBase writes one row at a time. So a transaction is first written as one row, whole, and then takes effect entry by entry; a
process that is killed in between leaves that row, and the next one does it again (``applying``). The bytes say the same as
the value: u64 version; then for each put, deletion and range a letter and its parts, u32 length and bytes each.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from handlers.failpoints import failpoint
from handlers.hbase import layout
from handlers.hbase.server_filters import KEYS_ONLY
from state.errors import StateCorrupt
from state.partitions.index.records import EntryKind, kind_of


if TYPE_CHECKING:
    from collections.abc import Iterator

    from handlers.hbase.gateway import Gateway


_VERSION: Final = struct.Struct(">Q")
_HEAD: Final = struct.Struct(">cI")
_PUT, _DELETE, _FROM, _TO, _TO_LAST, _UP_TO = b"p", b"d", b"f", b"t", b"l", b"u"


class Cleared(NamedTuple):
    """A range of entries that goes away, as far as they are not newer than a version."""

    start: bytes
    end: bytes | None
    version: int

    def has(self, key: bytes, version: int) -> bool:
        """Whether an entry of this version goes away."""
        return version <= self.version and self.start <= key and (self.end is None or key < self.end)


@dataclass(frozen=True, slots=True)
class Writes:
    """Entries to put and to delete with one version, and ranges to clear that come before them."""

    version: int
    puts: dict[bytes, bytes] = field(default_factory=dict)
    deletes: list[bytes] = field(default_factory=list)
    cleared: list[Cleared] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.puts or self.deletes or self.cleared)

    def to_bytes(self) -> bytes:
        """Write all of it."""
        parts = [_VERSION.pack(self.version)]
        for key, value in self.puts.items():
            parts += [_HEAD.pack(_PUT, len(key)), key, _HEAD.pack(_TO, len(value)), value]
        for key in self.deletes:
            parts += [_HEAD.pack(_DELETE, len(key)), key]
        for start, end, version in self.cleared:
            behind = b"" if end is None else end
            parts += [_HEAD.pack(_FROM, len(start)), start]
            parts += [_HEAD.pack(_TO_LAST if end is None else _TO, len(behind)), behind]
            parts += [_HEAD.pack(_UP_TO, _VERSION.size), _VERSION.pack(version)]
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> Writes:
        """Read what ``to_bytes`` wrote; raise StateCorrupt for anything else."""
        try:
            return cls._read(data)
        except (struct.error, ValueError, StopIteration) as error:
            raise StateCorrupt(
                "the transaction that was taking effect on HBase cannot be read", size_bytes=len(data)
            ) from error

    @classmethod
    def _read(cls, data: bytes) -> Writes:
        writes = cls(_VERSION.unpack_from(data)[0])
        parts = _parts(data, _VERSION.size)
        for letter, first in parts:
            if letter == _PUT:
                writes.puts[first] = _expected(parts, _TO)
            elif letter == _DELETE:
                writes.deletes.append(first)
            elif letter == _FROM:
                kind, end = next(parts)
                if kind not in {_TO, _TO_LAST}:
                    raise ValueError(kind)
                version = _VERSION.unpack(_expected(parts, _UP_TO))[0]
                writes.cleared.append(Cleared(first, end if kind == _TO else None, version))
            else:
                raise ValueError(letter)
        return writes


def _parts(data: bytes, at: int) -> Iterator[tuple[bytes, bytes]]:
    while at < len(data):
        letter, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if at + length > len(data):
            raise ValueError(length)
        yield letter, data[at : at + length]
        at += length


def _expected(parts: Iterator[tuple[bytes, bytes]], letter: bytes) -> bytes:
    found, value = next(parts)
    if found != letter:
        raise ValueError(found)
    return value


CELL_BYTES_MAX: Final = 4 << 20
"""HBase refuses cells of more than 10 MB."""
CLEARED_AT_ONCE: Final = 4096


def log(gateway: Gateway, writes: Writes) -> None:
    """Write a transaction as one row; when this returns it will take effect, whatever happens."""
    data = writes.to_bytes()
    parts = (data[at : at + CELL_BYTES_MAX] for at in range(0, len(data), CELL_BYTES_MAX))
    cells = {layout.numbered_cell(number): part for number, part in enumerate(parts)}
    gateway.put({layout.WRITES_ROW: cells}, writes.version)


def logged(gateway: Gateway) -> Writes | None:
    """Return the transaction that has not taken effect wholly, None where there is none; raises StateCorrupt."""
    found = gateway.rows([layout.WRITES_ROW], [layout.FAMILY]).get(layout.WRITES_ROW)
    if found is None:
        return None
    names = map(layout.numbered_cell, range(len(found.cells)))
    return Writes.from_bytes(b"".join(found.cells.get(name, b"") for name in names))


def forget(gateway: Gateway, writes: Writes) -> None:
    """Remove the row of a transaction that has taken effect."""
    gateway.delete([layout.WRITES_ROW], writes.version)


def apply(gateway: Gateway, writes: Writes) -> None:
    """Do all of it; may be repeated at any time, also when others have been applied since."""
    for kind in EntryKind:
        put_kind(gateway, writes, kind)
        failpoint(f"hbase-put-{kind.name.lower()}")
    for kind in reversed(EntryKind):
        delete_kind(gateway, writes, kind)
        failpoint(f"hbase-deleted-{kind.name.lower()}")


def put_kind(gateway: Gateway, writes: Writes, kind: EntryKind) -> None:
    """Put the entries of one kind."""
    found = {key: value for key, value in writes.puts.items() if kind_of(key) is kind}
    gateway.put(
        {layout.row_key(key): layout.cells(key, value) for key, value in found.items()}, writes.version
    )


def delete_kind(gateway: Gateway, writes: Writes, kind: EntryKind) -> None:
    """Delete the entries of one kind, and clear the ranges that begin with one."""
    doomed = [key for key in writes.deletes if kind_of(key) is kind]
    gateway.delete(map(layout.row_key, doomed), writes.version)
    for cleared in writes.cleared:
        if kind_of(cleared.start) is kind:
            _clear(gateway, cleared)


def _clear(gateway: Gateway, cleared: Cleared) -> None:
    rows = layout.row_range(cleared.start, cleared.end)
    while rows[0] < rows[1]:
        page = gateway.scan(rows, [layout.VALUE], CLEARED_AT_ONCE, KEYS_ONLY)
        gateway.delete((found.row for found in page if found.version <= cleared.version), cleared.version)
        if len(page) < CLEARED_AT_ONCE:
            return
        rows = page[-1].row + b"\x00", rows[1]
