"""Timelines in a store: tables, runs, partitions and reference counts.

A value exists as long as any partition has it; each therefore has a count of partitions. Each partition has a
record, which makes repeated events harmless and keeps the period, which a drop event does not contain. A
value that several partitions share has a count. One key stores one run: opening costs the number of runs and
not of partitions. A table with a single partition column needs neither records nor counts, because its runs
contain everything.

Keys begin with a table number, so a renamed table keeps everything::

    tl/n                                    -> the last table number
    tl/t/<name>                             -> number, settings, state (JSON)
    tl/r/<table><timeline><first ordinal>   -> the end of the run
    tl/p/<table><values of the partition>   -> the partition's entries (JSON)
    tl/c/<table><timeline><ordinal>         -> how many partitions have the value, if more than one
    tl/i/<table><column><value><partition>  -> empty: the value is in none of the column's timelines
    tl/g/<table>                            -> empty: the keys under this number are to be removed
    tl/l/<table>                            -> the table's name: a load under this number is not finished
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Any, Final

from state.errors import StateCorrupt
from state.store import Reader, Transaction, prefix_end
from state.store.numbers import Numbers
from state.timelines.ignored_values import IgnoredValues
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs


_TABLES: Final = b"tl/t/"
_RUNS: Final = b"tl/r/"
_PARTITIONS: Final = b"tl/p/"
_COUNTS: Final = b"tl/c/"
_IGNORED: Final = b"tl/i/"
_LOADING: Final = b"tl/l/"
NUMBERS: Final = Numbers(b"tl/n", b"tl/g/", (_RUNS, _PARTITIONS, _COUNTS, _IGNORED))
_PERIODS: Final = tuple(UpdatePeriod)
_CODES: Final = {period: code for code, period in enumerate(_PERIODS)}
"""The store contains these numbers: add new periods at the end of the enum."""
_SIGN: Final = 1 << 63
_decoder: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class PartitionEntry:
    """One value of one partition in one timeline; ``column`` is the number of the table's time column."""

    period: UpdatePeriod
    column: int
    ordinal: int

    @property
    def timeline(self) -> tuple[UpdatePeriod, int]:
        """Return the key of its timeline within the table."""
        return self.period, self.column


def read_tables(reader: Reader) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name, record) of every table."""
    for key, value in reader.scan(_TABLES, prefix_end(_TABLES)):
        yield key[len(_TABLES) :].decode(), _decode_json(value)


def put_table(txn: Transaction, name: str, record: Mapping[str, object]) -> None:
    """Write a table's record."""
    txn.put(_TABLES + name.encode(), json.dumps(record).encode())


def delete_table(txn: Transaction, name: str) -> None:
    """Delete a table's record; the keys under its number stay (see ``Numbers.discard``)."""
    txn.delete(_TABLES + name.encode())


def begin_load(txn: Transaction, name: str = "") -> int:
    """Return a new table number for content that counts only after ``end_load``;
    with the name, another process can continue.
    """
    number = NUMBERS.draw(txn)
    txn.put(_LOADING + number.to_bytes(8), name.encode())
    return number


def end_load(txn: Transaction, table: int) -> None:
    """Record that the content under a number counts."""
    txn.delete(_LOADING + table.to_bytes(8))


def abandon_load(txn: Transaction, table: int) -> None:
    """Remove the content of an unfinished load."""
    end_load(txn, table)
    NUMBERS.discard(txn, table)


def read_loads(reader: Reader) -> dict[int, str]:
    """Return the numbers of all unfinished loads, in order, with the names of their tables ("": not
    recorded).
    """
    stored = reader.scan(_LOADING, prefix_end(_LOADING))
    return {int.from_bytes(key[len(_LOADING) :]): name.decode() for key, name in stored}


def scan_content(reader: Reader, table: int, start: bytes = b"") -> Iterator[bytes]:
    """Yield the keys of all runs, partitions,
    counts and ignored values of a table, in order, from ``start`` on.
    """
    for group in sorted(NUMBERS.groups):
        prefix = group + table.to_bytes(8)
        end = prefix_end(prefix)
        if end is None or start < end:
            yield from reader.scan_keys(max(prefix, start), end)


def read_runs(reader: Reader, table: int) -> dict[tuple[UpdatePeriod, int], Runs]:
    """Read the runs of a table; raise StateCorrupt if they overlap."""
    edges: dict[tuple[UpdatePeriod, int], array[int]] = {}
    start = _RUNS + table.to_bytes(8)
    for key, value in reader.scan(start, prefix_end(start)):
        period, column = _PERIODS[key[len(start)]], int.from_bytes(key[len(start) + 1 : -8])
        pair = (int.from_bytes(key[-8:]) - _SIGN, int.from_bytes(value) - _SIGN)
        edges.setdefault((period, column), array("q")).extend(pair)
    return {timeline: _check_runs(Runs(listed)) for timeline, listed in edges.items()}


def put_runs(
    txn: Transaction, table: int, timeline: tuple[UpdatePeriod, int], pairs: Iterable[tuple[int, int]]
) -> None:
    """Write runs [start, end) of one timeline."""
    for pair in pairs:
        txn.put(*encode_run(table, timeline, pair))


def encode_run(table: int, timeline: tuple[UpdatePeriod, int], pair: tuple[int, int]) -> tuple[bytes, bytes]:
    """Return the key and value of a run [start, end)."""
    start = _encode_timeline_key(_RUNS, table, timeline)
    return start + _encode_ordinal(pair[0]), _encode_ordinal(pair[1])


def add_entry(txn: Transaction, table: int, entry: PartitionEntry, into: Runs) -> None:
    """Count one more partition with this value;
    if it is the first, extend the runs in memory and in the store.
    """
    if not into.add(entry.ordinal):
        count = _read_count(txn, table, entry)
        txn.put(_encode_key(_COUNTS, table, entry), (count + 1).to_bytes(8))
        return
    run = into.run_at(entry.ordinal)
    assert run is not None, entry
    start = _encode_timeline_key(_RUNS, table, entry.timeline)
    if run[1] > entry.ordinal + 1:
        txn.delete(start + _encode_ordinal(entry.ordinal + 1))
    txn.put(start + _encode_ordinal(run[0]), _encode_ordinal(run[1]))


def drop_entry(txn: Transaction, table: int, entry: PartitionEntry, from_: Runs) -> None:
    """Count one partition less with this value;
    if it was the last, cut the runs in memory and in the store.
    """
    count = _read_count(txn, table, entry)
    if count > 2:
        txn.put(_encode_key(_COUNTS, table, entry), (count - 1).to_bytes(8))
    elif count == 2:
        txn.delete(_encode_key(_COUNTS, table, entry))
    else:
        _cut_run(txn, table, entry, from_)


def encode_count(table: int, entry: PartitionEntry, count: int) -> tuple[bytes, bytes]:
    """Return the key and value for how many partitions have a value; at least two."""
    return _encode_key(_COUNTS, table, entry), count.to_bytes(8)


def read_counts(reader: Reader, table: int) -> Iterator[tuple[PartitionEntry, int]]:
    """Yield every stored count."""
    start = _COUNTS + table.to_bytes(8)
    for key, value in reader.scan(start, prefix_end(start)):
        column = int.from_bytes(key[len(start) + 1 : -8])
        yield (
            PartitionEntry(_PERIODS[key[len(start)]], column, int.from_bytes(key[-8:]) - _SIGN),
            int.from_bytes(value),
        )


def read_entries(reader: Reader, table: int, values: Sequence[str]) -> tuple[PartitionEntry, ...] | None:
    """Return the entries of a partition, or None if it is unknown."""
    value = reader.get(_encode_partition_key(table, values))
    return None if value is None else tuple(_decode_entries(value))


def put_entries(txn: Transaction, table: int, values: Sequence[str], added: Iterable[PartitionEntry]) -> None:
    """Record the entries of a partition, even if there are none."""
    txn.put(*encode_entries(table, values, added))


def encode_entries(table: int, values: Sequence[str], added: Iterable[PartitionEntry]) -> tuple[bytes, bytes]:
    """Return the key and value for the entries of a partition."""
    plain = ",".join([f"[{_CODES[entry.period]},{entry.column},{entry.ordinal}]" for entry in added])
    return _encode_partition_key(table, values), f"[{plain}]".encode()


def delete_entries(txn: Transaction, table: int, values: Sequence[str]) -> None:
    """Delete the record of a partition."""
    txn.delete(_encode_partition_key(table, values))


def read_all_entries(reader: Reader, table: int) -> Iterator[PartitionEntry]:
    """Yield the entries of every partition of a table."""
    start = _PARTITIONS + table.to_bytes(8)
    for _, value in reader.scan(start, prefix_end(start)):
        yield from _decode_entries(value)


def encode_ignored(table: int, column: int, text: str, values: Sequence[str]) -> bytes:
    """Return the key for a partition with an ignored value in a time column; it has an empty value."""
    return _encode_ignored(table, column, text) + _encode_values(values)


def add_ignored(txn: Transaction, table: int, column: int, text: str, values: Sequence[str]) -> None:
    """Record that a partition's value in a time column does not count; harmless if repeated."""
    txn.put(encode_ignored(table, column, text, values), b"")


def drop_ignored(txn: Transaction, table: int, column: int, text: str, values: Sequence[str]) -> bool:
    """Forget the ignored value of a partition; return whether no other partition has it."""
    txn.delete(encode_ignored(table, column, text, values))
    start = _encode_ignored(table, column, text)
    return next(iter(txn.scan_keys(start, prefix_end(start))), None) is None


def read_ignored(reader: Reader, table: int, column: int) -> IgnoredValues:
    """Read the ignored values of a time column, with one look-up for each."""
    return IgnoredValues.of(_scan_ignored(reader, _IGNORED + table.to_bytes(8) + column.to_bytes(2)))


def _scan_ignored(reader: Reader, prefix: bytes) -> Iterator[str]:
    start, end = prefix, prefix_end(prefix)
    while (key := next(iter(reader.scan_keys(start, end)), None)) is not None:
        text, length = _decoder.raw_decode(key[len(prefix) :].decode())
        yield text
        after = prefix_end(key[: len(prefix) + length])
        assert after is not None, "the text ends with a quotation mark"
        start = after


def _cut_run(txn: Transaction, table: int, entry: PartitionEntry, from_: Runs) -> None:
    run = from_.run_at(entry.ordinal)
    if run is None:
        raise StateCorrupt("a partition refers to a missing value", period=entry.period.name)
    from_.drop(entry.ordinal)
    start = _encode_timeline_key(_RUNS, table, entry.timeline)
    if run[0] < entry.ordinal:
        txn.put(start + _encode_ordinal(run[0]), _encode_ordinal(entry.ordinal))
    else:
        txn.delete(start + _encode_ordinal(run[0]))
    if entry.ordinal + 1 < run[1]:
        txn.put(start + _encode_ordinal(entry.ordinal + 1), _encode_ordinal(run[1]))


def _read_count(txn: Transaction, table: int, entry: PartitionEntry) -> int:
    return int.from_bytes(txn.get(_encode_key(_COUNTS, table, entry)) or b"\x01")


def _decode_entries(value: bytes) -> Iterator[PartitionEntry]:
    return (PartitionEntry(_PERIODS[code], column, ordinal) for code, column, ordinal in _decode_json(value))


def _decode_json(value: bytes) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise StateCorrupt("the timeline record is not JSON", value=value[:80]) from error


def _check_runs(runs_: Runs) -> Runs:
    try:
        runs_.check()
    except AssertionError as error:
        raise StateCorrupt("the stored runs overlap", first=runs_.first, last=runs_.last) from error
    return runs_


def _encode_timeline_key(group: bytes, table: int, timeline: tuple[UpdatePeriod, int]) -> bytes:
    return group + table.to_bytes(8) + bytes([_CODES[timeline[0]]]) + timeline[1].to_bytes(2)


def _encode_key(group: bytes, table: int, entry: PartitionEntry) -> bytes:
    return _encode_timeline_key(group, table, entry.timeline) + _encode_ordinal(entry.ordinal)


def _encode_partition_key(table: int, values: Sequence[str]) -> bytes:
    return _PARTITIONS + table.to_bytes(8) + _encode_values(values)


def _encode_ignored(table: int, column: int, text: str) -> bytes:
    """Return the beginning of the keys of one ignored value; the text is a JSON string, so that the beginning
    for one text is never that for another.
    """
    return _IGNORED + table.to_bytes(8) + column.to_bytes(2) + encode_basestring_ascii(text).encode()


def _encode_values(values: Sequence[str]) -> bytes:
    """Return a JSON array. It is built from strings, because calling the library's encoder for each event
    takes three times as long.
    """
    return f"[{','.join(map(encode_basestring_ascii, values))}]".encode()


def _encode_ordinal(ordinal: int) -> bytes:
    return (ordinal + _SIGN).to_bytes(8)
