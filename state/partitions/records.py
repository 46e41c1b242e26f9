"""What the store remembers of indexed tables: their columns, a row for each partition, and postings.

Keys are grouped by a table number, so that a renamed table keeps everything at the price of one record and a dropped one is
one range::

    px/n                              -> the last table number
    px/t/<name>                       -> number, columns, the default partition's name (JSON)
    px/p/<number 8><row>              -> values (JSON), a line feed, the payload
    px/c/<number 8><column 1><field><row>  -> empty

A row is a key of ``keys``. A posting holds the whole row behind its field: it answers for the names and for every other
column by itself, and behind one value of its column the table's own order goes on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from state.errors import StateCorrupt
from state.partitions import keys
from state.partitions.keys import RowForm
from state.partitions.types import columns_of
from state.store import Reader, Transaction, prefix_end


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_NUMBER: Final = b"px/n"
_TABLES: Final = b"px/t/"
_ROWS: Final = b"px/p/"
_POSTINGS: Final = b"px/c/"


@dataclass(frozen=True, slots=True)
class IndexedTable:
    """A table whose partitions are indexed; one number stands for one set of columns for ever."""

    number: int
    form: RowForm

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


def tables(reader: Reader) -> Iterator[tuple[str, IndexedTable]]:
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


def next_number(txn: Transaction) -> int:
    """Draw a table number that was never used."""
    number = int.from_bytes(txn.get(_NUMBER) or b"") + 1
    txn.put(_NUMBER, number.to_bytes(8))
    return number


def clear(txn: Transaction, table: IndexedTable) -> None:
    """Remove all rows and postings of a table."""
    for start in (table.rows, _POSTINGS + table.number.to_bytes(8)):
        txn.delete_range(start, prefix_end(start))


def put(txn: Transaction, table: IndexedTable, values: Sequence[str], payload: bytes) -> None:
    """Write a partition with its postings; a known one gets the new payload."""
    fields = table.form.fields(values)
    row = table.form.row(values, fields)
    txn.put(table.rows + row, _value(values, payload))
    for column, field in enumerate(fields[1:], 1):
        txn.put(table.postings(column) + field + row, b"")


def delete(txn: Transaction, table: IndexedTable, values: Sequence[str]) -> None:
    """Remove a partition with its postings; an unknown one is no error."""
    fields = table.form.fields(values)
    row = table.form.row(values, fields)
    txn.delete(table.rows + row)
    for column, field in enumerate(fields[1:], 1):
        txn.delete(table.postings(column) + field + row)


def get(reader: Reader, table: IndexedTable, row: bytes) -> tuple[tuple[str, ...], bytes] | None:
    """Return (values, payload) of a row, None where there is none."""
    value = reader.get(table.rows + row)
    return None if value is None else content(value)


def content(value: bytes) -> tuple[tuple[str, ...], bytes]:
    """Read (values, payload); raise StateCorrupt where it is something else."""
    values, separator, payload = value.partition(b"\n")
    read = _decoded(values)
    if not separator or not isinstance(read, list):
        raise StateCorrupt("a partition of the index cannot be read", value=value[:80])
    return tuple(read), payload


def check(reader: Reader, table: IndexedTable) -> int:
    """Assert that rows say what their keys say, and that each has its postings and no others; return how many there are."""
    columns, rows = len(table.form.columns), 0
    for key, value in reader.scan(table.rows, prefix_end(table.rows)):
        rows += 1
        values, _ = content(value)
        row = keys.row_of(keys.checked(key, columns))
        assert row == key[len(table.rows) :], key
        assert row == table.form.row(values), (key, values)
        for column in range(1, columns):
            posting = table.postings(column) + keys.field(key, column) + row
            assert reader.get(posting) == b"", (key, column)
    start = _POSTINGS + table.number.to_bytes(8)
    postings = sum(1 for _ in reader.scan_keys(start, prefix_end(start)))
    assert postings == rows * (columns - 1), (postings, rows)
    return rows


def check_numbers(reader: Reader, known: set[int]) -> None:
    """Assert that nothing is stored under a number that no table has."""
    for group in (_ROWS, _POSTINGS):
        at = group
        while found := next(reader.scan_keys(at, prefix_end(group)), None):
            number = int.from_bytes(found[len(group) : len(group) + 8])
            assert number in known, (group, number)
            at = group + (number + 1).to_bytes(8)


def _table(value: bytes) -> IndexedTable:
    record = _decoded(value)
    try:
        columns = columns_of((name, declared) for name, declared in record["columns"])
        return IndexedTable(record["number"], RowForm(columns, record["default"]))
    except (KeyError, TypeError, ValueError) as error:
        raise StateCorrupt("a table of the partition index cannot be read", value=value[:80]) from error


def _value(values: Sequence[str], payload: bytes) -> bytes:
    return json.dumps(list(values), separators=(",", ":")).encode() + b"\n" + payload


def _decoded(value: bytes) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise StateCorrupt("a record of the partition index is no JSON", value=value[:80]) from error
