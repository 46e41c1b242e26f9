"""The key of a partition: its fields in key order, then its name, then where each of them starts.

::

    key  = prefix  field_1 .. field_n  name 00  start_1 .. start_n  start_name  n
                                               └ u16 each, counted back from here ┘ u8

Three things follow (the seed's desirable properties and one more):

- Order of bytes is order of values, compared with ``memcmp``: every field is prefix-free, so two different rows of fields
  differ before their names begin, and equal ones have equal positions.
- Any field is found without looking at the ones before it, from the end of the key alone. Starts are counted backwards, so a
  key means the same behind any prefix: of a table number in the embedded store, of database and table in HBase, of a posting.
- Two partitions whose values have one typed form (``hr=5``, ``hr=05``) stay two, by their names.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from state.errors import BadPartitionValue, LimitExceeded, StateCorrupt
from state.partitions.keys.binary_sortable import VALUE, terminate
from state.partitions.keys.values import DEFAULT_PARTITION, encode_text


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.partitions.keys.column_types import PartitionColumn


ROW_BYTES_MAX: Final = 6 * 1024
"""Longest row (a key without its prefix); a posting holds one field more, and the store takes 8 KiB."""
COLUMNS_MAX: Final = 64


class KeySchema:
    """How the partitions of one table become keys."""

    def __init__(
        self, columns: Sequence[PartitionColumn], default_partition: str = DEFAULT_PARTITION
    ) -> None:
        if not 0 < len(columns) <= COLUMNS_MAX:
            raise LimitExceeded("a table has too many partition columns, or none", columns=len(columns))
        self.columns = tuple(columns)
        self.default_partition = default_partition
        self._names = [column.name for column in columns]
        self._types = [column.type for column in columns]

    def fields(self, values: Sequence[str]) -> list[bytes]:
        """Return the field of every value; raise BadPartitionValue where their number is another."""
        if len(values) != len(self._types):
            raise BadPartitionValue(
                "a partition has another number of values than its table has partition columns",
                values=tuple(values)[:COLUMNS_MAX],
                columns=tuple(self._names),
            )
        default = self.default_partition
        return [encode_text(type_, text, default) for type_, text in zip(self._types, values, strict=True)]

    def name(self, values: Sequence[str]) -> str:
        """Return the name of the partition with these values."""
        return format_name(self._names, values, self.default_partition)

    def row(self, values: Sequence[str], fields: Sequence[bytes] | None = None) -> bytes:
        """Return the key of a partition without a prefix; raise LimitExceeded where it is too long."""
        parts = [*(self.fields(values) if fields is None else fields)]
        parts.append(self.name(values).encode(errors="surrogatepass") + b"\x00")
        starts, back = [], 0
        for part in reversed(parts):
            back += len(part)
            starts.append(back)
        starts.reverse()
        if back > ROW_BYTES_MAX:
            raise LimitExceeded(
                "the key of a partition is too long", size_bytes=back, limit_bytes=ROW_BYTES_MAX
            )
        return b"".join(parts) + _starts(len(parts)).pack(*starts, len(parts) - 1)


def table_prefix(db: str, table: str) -> bytes:
    """Return what every key of a table starts with where keys hold its name: two BinarySortable strings."""
    return VALUE + terminate(db.lower().encode()) + VALUE + terminate(table.lower().encode())


def field(key: bytes, column: int) -> bytes:
    """Return one field of a key, whatever its prefix, at a cost that does not depend on the fields before it."""
    end = len(key) - 2 * key[-1] - 3
    start, after = _PAIR.unpack_from(key, end + 2 * column)
    return key[end - start : end - after]


def name(key: bytes) -> bytes:
    """Return the partition's name out of a key, in UTF-8."""
    end = len(key) - 2 * key[-1] - 3
    return key[end - (key[-3] << 8 | key[-2]) : end - 1]


def strip_prefix(key: bytes) -> bytes:
    """Return a key without its prefix."""
    end = len(key) - 2 * key[-1] - 3
    return key[end - (key[end] << 8 | key[end + 1]) :]


def verify(key: bytes, columns: int) -> bytes:
    """Return ``key``; raise StateCorrupt where its end cannot be that of a key with so many columns."""
    end = len(key) - 2 * columns - 3
    if end <= 0 or key[-1] != columns:
        raise StateCorrupt("a key of the partition index is cut off", key=key.hex()[:80])
    starts = _starts(columns + 1).unpack_from(key, end)[:-1]
    if sorted(starts, reverse=True) != list(starts) or starts[0] > end:
        raise StateCorrupt("a key of the partition index has impossible positions", key=key.hex()[:80])
    return key


@lru_cache(maxsize=COLUMNS_MAX + 1)
def _starts(count: int) -> struct.Struct:
    return struct.Struct(f">{count}HB")


_PAIR: Final = struct.Struct(">HH")


_ESCAPED: Final = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{\[\]^]")


def format_name(
    columns: Iterable[str], values: Sequence[str], default_partition: str = DEFAULT_PARTITION
) -> str:
    """Return the name of a partition; an empty value has the default partition's name, as Hive does it."""
    pairs = zip(columns, values, strict=True)
    return "/".join(f"{column}={escape(value) if value else default_partition}" for column, value in pairs)


def escape(text: str) -> str:
    """Return a column name or value as it stands in a partition name."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
