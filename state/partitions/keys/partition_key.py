"""The key of a partition: its fields in key order,
then its name, then the start of each; and partition names.

::

    key  = prefix  field_1 .. field_n  name 00  start_1 .. start_n  start_name  n
                                               └ u16 each, counted back from here ┘ u8

This layout has three properties:

- The order of bytes is the order of values, compared with ``memcmp``. Every field is prefix-free, so two
  different rows of fields differ before their names begin, and equal rows have equal positions.
- Readers find any field from the end of the key, without reading the fields before it. Starts count
  backwards, so a key reads the same after any prefix: a table number in the embedded store, database and
  table in HBase, or the field of a posting.
- Two partitions whose values have the same typed form (``hr=5`` and ``hr=05``) remain two, because their
  names differ.

A partition's name (``ds=2020-01-01/hr=5``) is its identity in the metastore. Escapes are those of Hive's
FileUtils.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from state.errors import BadPartitionValue, LimitExceeded, StateCorrupt
from state.partitions.keys.column_types import PartitionColumn
from state.partitions.keys.values import DEFAULT_PARTITION, field_encoder


ROW_BYTES_MAX: Final = 6 * 1024
"""Longest row (a key without its prefix); a posting holds one more field, and the store accepts keys of up to
8 KiB."""
COLUMNS_MAX: Final = 64
_ESCAPED: Final = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{\[\]^]")
_TWO_STARTS: Final = struct.Struct(">HH")


class KeySchema:
    """Encodes the partitions of one table as keys."""

    def __init__(
        self, columns: Sequence[PartitionColumn], default_partition: str = DEFAULT_PARTITION
    ) -> None:
        if not 0 < len(columns) <= COLUMNS_MAX:
            raise LimitExceeded(
                "an indexed table must have at least one partition column and at most the limit",
                columns=len(columns),
                limit=COLUMNS_MAX,
            )
        self.columns = tuple(columns)
        self.default_partition = default_partition
        self._names = [column.name for column in columns]
        self._encoders = [field_encoder(column.type, default_partition) for column in columns]

    def fields(self, values: Sequence[str]) -> list[bytes]:
        """Return the field of every value; raise BadPartitionValue if the numbers of values and columns
        differ.
        """
        if len(values) != len(self._encoders):
            raise BadPartitionValue(
                "the number of values must be the number of partition columns",
                values=tuple(values)[:COLUMNS_MAX],
                columns=tuple(self._names),
            )
        return [encode_field(text) for encode_field, text in zip(self._encoders, values, strict=True)]

    def name(self, values: Sequence[str]) -> str:
        """Return the name of the partition with these values."""
        return format_name(self._names, values, self.default_partition)

    def row(
        self, values: Sequence[str], fields: Sequence[bytes] | None = None, name: str | None = None
    ) -> bytes:
        """Return the key of a partition without a prefix; raise LimitExceeded if it is too long.

        ``fields`` and ``name`` are those of the values, if the caller has them.
        """
        parts = [*(self.fields(values) if fields is None else fields)]
        parts.append((name or self.name(values)).encode(errors="surrogatepass") + b"\x00")
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


def field(key: bytes, column: int) -> bytes:
    """Return one field of a key with any prefix; the cost does not depend on the fields before it."""
    end = len(key) - 2 * key[-1] - 3
    start, after = _TWO_STARTS.unpack_from(key, end + 2 * column)
    return key[end - start : end - after]


@lru_cache(maxsize=COLUMNS_MAX + 1)
def name_reader(columns: int) -> Callable[[bytes], bytes]:
    """Return a function that reads the partition's name, in UTF-8, from a key with this number of columns."""
    tail = 2 * columns + 3

    def read(key: bytes) -> bytes:
        return key[-tail - (key[-3] << 8 | key[-2]) : -tail - 1]

    return read


def read_names(keys: Iterable[bytes], columns: int) -> list[bytes]:
    """Return the name of each key, as ``name_reader`` does, but without a call for each key."""
    tail = 2 * columns + 3
    return [key[-tail - (key[-3] << 8 | key[-2]) : -tail - 1] for key in keys]


def strip_prefix(key: bytes) -> bytes:
    """Return a key without its prefix."""
    end = len(key) - 2 * key[-1] - 3
    return key[end - (key[end] << 8 | key[end + 1]) :]


def verify(key: bytes, columns: int) -> bytes:
    """Return ``key``; raise StateCorrupt if it does not end like a key with this number of columns."""
    end = len(key) - 2 * columns - 3
    if end <= 0 or key[-1] != columns:
        raise StateCorrupt("a key of the partition index is truncated", key=key.hex()[:80])
    starts = _starts(columns + 1).unpack_from(key, end)[:-1]
    if sorted(starts, reverse=True) != list(starts) or starts[0] > end:
        raise StateCorrupt("a key of the partition index has invalid field positions", key=key.hex()[:80])
    return key


@lru_cache(maxsize=COLUMNS_MAX + 1)
def _starts(count: int) -> struct.Struct:
    return struct.Struct(f">{count}HB")


def format_name(
    columns: Iterable[str], values: Sequence[str], default_partition: str = DEFAULT_PARTITION
) -> str:
    """Return the name of a partition; an empty value becomes the default partition, as in Hive."""
    pairs = zip(columns, values, strict=True)
    return "/".join([f"{column}={escape(value) if value else default_partition}" for column, value in pairs])


@lru_cache(maxsize=1 << 14)
def escape(text: str) -> str:
    """Escape a column name or value for a partition name."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
