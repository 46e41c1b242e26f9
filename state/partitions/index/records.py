"""What the store remembers of indexed tables: their columns, a row for each partition, and postings.

Keys are grouped by a table number, so that a renamed table keeps everything at the price of one record and a dropped one is
one range::

    px/n                              -> the last table number
    px/t/<name>                       -> number, columns, the default partition's name (JSON)
    px/p/<number 8><row>              -> values (JSON), a line feed, the payload
    px/c/<number 8><column 1><field><row>  -> empty

A row is a key of ``keys``. A posting holds the whole row behind its field: it answers for the names and for every other
column by itself, and behind one value of its column the table's own order goes on.

A store that cannot write several entries at once writes them in the order of ``EntryKind`` and removes them in the reverse order,
and so does this module, because such a store may write a long transaction in pieces: then whatever a crash leaves, every row
has its postings, and every table that is known has a number that nobody else gets.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from state.errors import StateCorrupt
from state.partitions.keys import partition_key
from state.partitions.keys.column_types import parse_columns
from state.partitions.keys.partition_key import KeySchema
from state.store import Reader, Transaction, get_many, prefix_end


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_NUMBER: Final = b"px/n"
_TABLES: Final = b"px/t/"
_ROWS: Final = b"px/p/"
_POSTINGS: Final = b"px/c/"
_CHECKED_AT_ONCE: Final = 256
"""Rows whose postings are asked for together."""


class EntryKind(IntEnum):
    """What an entry of the store is, in the order of writing."""

    NUMBER = 0
    POSTING = 1
    ROW = 2
    OTHER = 3
    """A table's record, or an entry of somebody else."""


def kind_of(key: bytes) -> EntryKind:
    """Tell what is stored under a key."""
    if key.startswith(_POSTINGS):
        return EntryKind.POSTING
    if key.startswith(_ROWS):
        return EntryKind.ROW
    return EntryKind.NUMBER if key == _NUMBER else EntryKind.OTHER


@dataclass(frozen=True, slots=True)
class IndexedTable:
    """A table whose partitions are indexed; one number stands for one set of columns for ever."""

    number: int
    form: KeySchema

    @property
    def rows(self) -> bytes:
        """What the keys of its rows begin with."""
        return _ROWS + self.number.to_bytes(8)

    def postings(self, column: int) -> bytes:
        """Return what the postings of one column begin with."""
        return _POSTINGS + self.number.to_bytes(8) + bytes([column])

    def prefix(self, column: int | None) -> bytes:
        """Return what the keys of one way to read the table begin with; None are its rows."""
        return self.rows if column is None else self.postings(column)


def read_tables(reader: Reader) -> Iterator[tuple[str, IndexedTable]]:
    """Yield (name, table); raise StateCorrupt where a record cannot be read."""
    for key, value in reader.scan(_TABLES, prefix_end(_TABLES)):
        yield key[len(_TABLES) :].decode(), _table(value)


def put_table(txn: Transaction, name: str, table: IndexedTable) -> None:
    """Write a table's record."""
    record = {
        "number": table.number,
        "columns": [[column.name, column.declared] for column in table.form.columns],
        "default": table.form.default_partition,
    }
    txn.put(_TABLES + name.encode(), json.dumps(record).encode())


def forget_table(txn: Transaction, name: str) -> None:
    """Remove a table's record; what is stored under its number stays (``clear``)."""
    txn.delete(_TABLES + name.encode())


def draw_number(txn: Transaction) -> int:
    """Draw a table number that was never used."""
    number = int.from_bytes(txn.get(_NUMBER) or b"") + 1
    txn.put(_NUMBER, number.to_bytes(8))
    return number


def clear(txn: Transaction, number: int) -> int:
    """Remove all rows and postings under a table number; return how many there were."""
    starts = [group + number.to_bytes(8) for group in (_ROWS, _POSTINGS)]
    return sum(txn.delete_range(start, prefix_end(start)) for start in starts)


def put(txn: Transaction, table: IndexedTable, values: Sequence[str], payload: bytes) -> None:
    """Write a partition with its postings; a known one gets the new payload."""
    fields = table.form.fields(values)
    row = table.form.row(values, fields)
    for posting in _postings(table, fields, row):
        txn.put(posting, b"")
    txn.put(table.rows + row, _value(values, payload))


def delete(txn: Transaction, table: IndexedTable, values: Sequence[str]) -> None:
    """Remove a partition with its postings; an unknown one is no error."""
    fields = table.form.fields(values)
    row = table.form.row(values, fields)
    txn.delete(table.rows + row)
    for posting in _postings(table, fields, row):
        txn.delete(posting)


def get_each(
    reader: Reader, table: IndexedTable, rows: Sequence[bytes]
) -> list[tuple[tuple[str, ...], bytes] | None]:
    """Return (values, payload) of each row, None where there is none."""
    values = get_many(reader, [table.rows + row for row in rows])
    return [None if value is None else parse_value(value) for value in values]


def parse_value(value: bytes) -> tuple[tuple[str, ...], bytes]:
    """Read (values, payload); raise StateCorrupt where it is something else."""
    values, separator, payload = value.partition(b"\n")
    read = _decoded(values)
    if not separator or not isinstance(read, list):
        raise StateCorrupt("a partition of the index cannot be read", value=value[:80])
    return tuple(read), payload


def check(reader: Reader, table: IndexedTable) -> int:
    """Assert that rows say what their keys say, and that each has its postings and no others; return how many there are."""
    columns, rows = len(table.form.columns), 0
    stored = reader.scan(table.rows, prefix_end(table.rows))
    while chunk := list(islice(stored, _CHECKED_AT_ONCE)):
        rows += len(chunk)
        for key, value in chunk:
            values, _ = parse_value(value)
            row = partition_key.strip_prefix(partition_key.verify(key, columns))
            assert row == key[len(table.rows) :], key
            assert row == table.form.row(values), (key, values)
        expected = [posting for key, _ in chunk for posting in postings_of(table, key)]
        assert set(get_many(reader, expected)) <= {b""}, chunk[0]
    start, end = posting_range(table)
    postings = sum(1 for _ in reader.scan_keys(start, end))
    assert postings == rows * (columns - 1), (postings, rows)
    return rows


def check_numbers(reader: Reader, known: set[int]) -> None:
    """Assert that nothing is stored under a number that no table has."""
    strange = [number for number in stored_numbers(reader) if number not in known]
    assert not strange, strange


def stored_numbers(reader: Reader) -> Iterator[int]:
    """Yield the table numbers that rows and postings are stored under; one with both comes twice."""
    for group in (_ROWS, _POSTINGS):
        at = group
        while found := next(reader.scan_keys(at, prefix_end(group)), None):
            number = int.from_bytes(found[len(group) : len(group) + 8])
            yield number
            at = group + (number + 1).to_bytes(8)


def posting_range(table: IndexedTable) -> tuple[bytes, bytes | None]:
    """Return where the postings of a table start and end."""
    start = _POSTINGS + table.number.to_bytes(8)
    return start, prefix_end(start)


def postings_of(table: IndexedTable, key: bytes) -> list[bytes]:
    """Return the keys of the postings that belong to a row's key."""
    columns = range(len(table.form.columns))
    return _postings(
        table, [partition_key.field(key, column) for column in columns], partition_key.strip_prefix(key)
    )


def _postings(table: IndexedTable, fields: Sequence[bytes], row: bytes) -> list[bytes]:
    return [table.postings(column) + field + row for column, field in enumerate(fields[1:], 1)]


def _table(value: bytes) -> IndexedTable:
    record = _decoded(value)
    try:
        columns = parse_columns((name, declared) for name, declared in record["columns"])
        return IndexedTable(record["number"], KeySchema(columns, record["default"]))
    except (KeyError, TypeError, ValueError) as error:
        raise StateCorrupt("a table of the partition index cannot be read", value=value[:80]) from error


def _value(values: Sequence[str], payload: bytes) -> bytes:
    return json.dumps(list(values), separators=(",", ":")).encode() + b"\n" + payload


def _decoded(value: bytes) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise StateCorrupt("a record of the partition index is no JSON", value=value[:80]) from error
