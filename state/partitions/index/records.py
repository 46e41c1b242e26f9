"""The stored form of the partition index: a record for each table, a row for each partition, and postings.

Keys begin with a table number. So renaming a table writes one record, and dropping a table deletes one
range::

    px/n                                   -> the last table number
    px/t/<name>                            -> number, columns, the default partition's name (JSON)
    px/p/<number 8><row>                   -> values (JSON), a line feed, the payload
    px/c/<number 8><column 1><field><row>  -> empty
    px/v/<number 8>                        -> the version of the table's rows: random bytes, new on a change
    px/g/<number 8>                        -> empty: rows and postings that are to be removed

A row is the key of a partition (``partition_key``). A posting holds the whole row after its field. So it
provides the name and every other column alone, and the postings of one value continue in the table's own
order.

A store that cannot write several entries atomically writes them in the order of ``EntryKind`` and removes
them in reverse order. This module does the same, because such a store may write a long transaction in pieces.
At every moment, every row has its postings and the entries that its payload refers to, and no table ever gets
the number of another known one.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from state.errors import StateCorrupt
from state.partitions.keys import partition_key
from state.partitions.keys.column_types import parse_columns
from state.partitions.keys.partition_key import KeySchema
from state.store import Reader, Transaction, get_many, prefix_end
from state.store.numbers import Numbers


DICTIONARIES: Final = b"pd/"
"""The prefix of shared parts of payloads, which callers store under names that follow from the content."""
VERSIONS: Final = b"px/v/"
"""The prefix of the versions of tables' rows."""
VERSION_BYTES: Final = 16
"""Random: no version repeats, in any order of restored files."""
_TABLES: Final = b"px/t/"
_ROWS: Final = b"px/p/"
_POSTINGS: Final = b"px/c/"
NUMBERS: Final = Numbers(b"px/n", b"px/g/", (_ROWS, _POSTINGS))
_CHECKED_AT_ONCE: Final = 256
"""Rows whose postings one request fetches."""


class EntryKind(IntEnum):
    """The kind of a stored entry, in the order of writing."""

    BASIS = 0
    """The last table number, and shared parts of payloads: harmless alone, and needed by all later
    records."""
    POSTING = 1
    ROW = 2
    OTHER = 3
    """A table's record, or an entry that does not belong to the index."""


def kind_of(key: bytes) -> EntryKind:
    """Return the kind of the entry with this key."""
    if key.startswith(_POSTINGS):
        return EntryKind.POSTING
    if key.startswith(_ROWS):
        return EntryKind.ROW
    return EntryKind.BASIS if key == NUMBERS.last or key.startswith(DICTIONARIES) else EntryKind.OTHER


@dataclass(frozen=True, slots=True)
class IndexedTable:
    """An indexed table; its number is never used again for other columns."""

    number: int
    key_schema: KeySchema

    @property
    def rows(self) -> bytes:
        """The prefix of its rows."""
        return _ROWS + self.number.to_bytes(8)

    def postings(self, column: int) -> bytes:
        """Return the prefix of the postings of one column."""
        return _POSTINGS + self.number.to_bytes(8) + bytes([column])

    def prefix(self, column: int | None) -> bytes:
        """Return the prefix of an access path: the postings of a column, or the rows (None)."""
        return self.rows if column is None else self.postings(column)


def read_tables(reader: Reader) -> Iterator[tuple[str, IndexedTable]]:
    """Yield (name, table) of every indexed table; raise StateCorrupt for an unreadable record."""
    for key, value in reader.scan(_TABLES, prefix_end(_TABLES)):
        yield key[len(_TABLES) :].decode(), _parse_table(value)


def read_table(reader: Reader, name: str) -> IndexedTable | None:
    """Return one indexed table, None if there is none; raise StateCorrupt for an unreadable record."""
    value = reader.get(_TABLES + name.encode())
    return None if value is None else _parse_table(value)


def put_table(txn: Transaction, name: str, table: IndexedTable) -> None:
    """Write a table's record."""
    record = {
        "number": table.number,
        "columns": [[column.name, column.declared] for column in table.key_schema.columns],
        "default": table.key_schema.default_partition,
    }
    txn.put(_TABLES + name.encode(), json.dumps(record).encode())


def forget_table(txn: Transaction, name: str) -> None:
    """Remove a table's record; its rows and postings remain until ``clear``."""
    txn.delete(_TABLES + name.encode())


def draw_version() -> bytes:
    """Return an unused version: equal versions mean equal rows, even in a file restored from a backup."""
    return secrets.token_bytes(VERSION_BYTES)


def put_version(txn: Transaction, number: int, version: bytes) -> None:
    """Record that the rows under a table number change in this transaction."""
    txn.put(version_key(number), version)


def version_key(number: int) -> bytes:
    """Return the key of the version of a table's rows; without an entry, the version is unknown."""
    return VERSIONS + number.to_bytes(8)


def draw_versions(txn: Transaction) -> None:
    """Give every table a version, when migrating a file without versions."""
    version = draw_version()
    for _, table in read_tables(txn):
        put_version(txn, table.number, version)


def clear(txn: Transaction, number: int) -> None:
    """Remove all rows and postings under a table number."""
    for start in _content_prefixes(number):
        txn.delete_range(start, prefix_end(start))


def put(txn: Transaction, table: IndexedTable, values: Sequence[str], payload: bytes) -> None:
    """Write a partition and its postings; replace the payload of a known one."""
    fields = table.key_schema.fields(values)
    row = table.key_schema.row(values, fields)
    for posting in _posting_keys(table, fields, row):
        txn.put(posting, b"")
    txn.put(table.rows + row, _encode_value(values, payload))


def delete(txn: Transaction, table: IndexedTable, values: Sequence[str]) -> None:
    """Remove a partition and its postings; an unknown one is not an error."""
    fields = table.key_schema.fields(values)
    row = table.key_schema.row(values, fields)
    txn.delete(table.rows + row)
    for posting in _posting_keys(table, fields, row):
        txn.delete(posting)


def get_each(
    reader: Reader, table: IndexedTable, rows: Sequence[bytes]
) -> list[tuple[tuple[str, ...], bytes] | None]:
    """Return (values, payload) of each row, None if it does not exist."""
    values = get_many(reader, [table.rows + row for row in rows])
    return [None if value is None else parse_value(value) for value in values]


def get_payloads(reader: Reader, table: IndexedTable, rows: Sequence[bytes]) -> list[bytes | None]:
    """Return the payload of each row, None if it does not exist."""
    values = get_many(reader, [table.rows + row for row in rows])
    return [None if value is None else payload_of(value) for value in values]


def payload_of(value: bytes) -> bytes:
    """Return the payload of a stored value."""
    return value[value.find(b"\n") + 1 :]


def payloads_of(values: Iterable[bytes]) -> list[bytes]:
    """Return the payload of each stored value: ``payload_of`` without a call for each."""
    return [value[value.find(b"\n") + 1 :] for value in values]


def parse_value(value: bytes) -> tuple[tuple[str, ...], bytes]:
    """Read (values, payload) from a stored value; raise StateCorrupt for a malformed one."""
    values, separator, payload = value.partition(b"\n")
    read = _parse_json(values)
    if not separator or not isinstance(read, list):
        raise StateCorrupt("a partition of the index cannot be read", value=value[:80])
    return tuple(read), payload


def check(reader: Reader, table: IndexedTable) -> int:
    """Assert that rows agree with their keys and that each has its postings and no others;
    return the number of rows.
    """
    columns, rows = len(table.key_schema.columns), 0
    stored = reader.scan(table.rows, prefix_end(table.rows))
    while chunk := list(islice(stored, _CHECKED_AT_ONCE)):
        rows += len(chunk)
        for key, value in chunk:
            values, _ = parse_value(value)
            row = partition_key.strip_prefix(partition_key.verify(key, columns))
            assert row == key[len(table.rows) :], key
            assert row == table.key_schema.row(values), (key, values)
        expected = [posting for key, _ in chunk for posting in posting_keys(table, key)]
        assert set(get_many(reader, expected)) <= {b""}, chunk[0]
    start = _POSTINGS + table.number.to_bytes(8)
    postings = sum(1 for _ in reader.scan_keys(start, prefix_end(start)))
    assert postings == rows * (columns - 1), (postings, rows)
    return rows


def check_numbers(reader: Reader, numbers: set[int]) -> None:
    """Assert that no number without a table, discarded ones excepted, has stored entries."""
    start = NUMBERS.discarded
    discarded = {int.from_bytes(key[len(start) :]) for key in reader.scan_keys(start, prefix_end(start))}
    unknown = [number for number in _stored_numbers(reader) if number not in numbers | discarded]
    assert not unknown, unknown
    versions = {
        int.from_bytes(key[len(VERSIONS) :]) for key in reader.scan_keys(VERSIONS, prefix_end(VERSIONS))
    }
    assert versions <= numbers, versions - numbers


def _stored_numbers(reader: Reader) -> Iterator[int]:
    """Yield the table numbers of stored rows and postings; a number with both is yielded twice."""
    for group in (_ROWS, _POSTINGS):
        at = group
        while found := next(reader.scan_keys(at, prefix_end(group)), None):
            number = int.from_bytes(found[len(group) : len(group) + 8])
            yield number
            at = group + (number + 1).to_bytes(8)


def posting_keys(table: IndexedTable, key: bytes) -> list[bytes]:
    """Return the keys of the postings of a row."""
    columns = range(len(table.key_schema.columns))
    return _posting_keys(
        table, [partition_key.field(key, column) for column in columns], partition_key.strip_prefix(key)
    )


def _posting_keys(table: IndexedTable, fields: Sequence[bytes], row: bytes) -> list[bytes]:
    return [table.postings(column) + field + row for column, field in enumerate(fields[1:], 1)]


@lru_cache(maxsize=256)
def _parse_table(value: bytes) -> IndexedTable:
    record = _parse_json(value)
    try:
        columns = parse_columns((name, declared) for name, declared in record["columns"])
        return IndexedTable(record["number"], KeySchema(columns, record["default"]))
    except (KeyError, TypeError, ValueError) as error:
        raise StateCorrupt("a table of the partition index cannot be read", value=value[:80]) from error


def _encode_value(values: Sequence[str], payload: bytes) -> bytes:
    return json.dumps(list(values), separators=(",", ":")).encode() + b"\n" + payload


def _parse_json(value: bytes) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise StateCorrupt("a record of the partition index is not valid JSON", value=value[:80]) from error


def _content_prefixes(number: int) -> list[bytes]:
    return [group + number.to_bytes(8) for group in (_ROWS, _POSTINGS)]
