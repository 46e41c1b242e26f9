"""What the store remembers of timelines: tables, runs, partitions and reference counts.

A value exists while any partition has it, so something has to know how many do. That is the record of each partition
(which also makes a repeated event harmless, and remembers the period, which a drop event does not tell) and a count for each
value that more than one partition has. Runs are stored as they are, one key per run, so opening costs the number of runs and
not of partitions. A table with a single partition column needs neither records nor counts: there a run says it all.

Keys are grouped by a table number, so a renamed table keeps everything::

    tl/n                                    -> the last table number
    tl/t/<name>                             -> number, settings, state (JSON)
    tl/r/<table><timeline><first ordinal>   -> the end of the run
    tl/p/<table><values of the partition>   -> what it adds to which timeline (JSON)
    tl/c/<table><timeline><ordinal>         -> how many partitions have it, where more than one has
"""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from state.errors import StateCorrupt
from state.store import Reader, Transaction, prefix_end
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


_NUMBER: Final = b"tl/n"
_TABLES: Final = b"tl/t/"
_RUNS: Final = b"tl/r/"
_PARTITIONS: Final = b"tl/p/"
_COUNTS: Final = b"tl/c/"
_GROUPS: Final = (_RUNS, _PARTITIONS, _COUNTS)
_PERIODS: Final = tuple(UpdatePeriod)
_CODES: Final = {period: code for code, period in enumerate(_PERIODS)}
"""Stored: new periods go to the end of the enum."""
_SIGN: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Entry:
    """What one partition adds to one timeline: ``column`` is the number of the table's time column."""

    period: UpdatePeriod
    column: int
    ordinal: int

    @property
    def timeline(self) -> tuple[UpdatePeriod, int]:
        """The key of its timeline within the table."""
        return self.period, self.column


def read_tables(reader: Reader) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name, record) of every table."""
    for key, value in reader.scan(_TABLES, prefix_end(_TABLES)):
        yield key[len(_TABLES) :].decode(), _decoded(value)


def put_table(txn: Transaction, name: str, record: Mapping[str, object]) -> None:
    """Write a table's record."""
    txn.put(_TABLES + name.encode(), json.dumps(record).encode())


def delete_table(txn: Transaction, name: str) -> None:
    """Remove a table's record; what is stored under its number stays (``clear_table``)."""
    txn.delete(_TABLES + name.encode())


def draw_number(txn: Transaction) -> int:
    """Draw a table number that was never used."""
    number = int.from_bytes(txn.get(_NUMBER) or b"") + 1
    txn.put(_NUMBER, number.to_bytes(8))
    return number


def clear_table(txn: Transaction, table: int) -> None:
    """Remove runs, partitions and counts of a table."""
    for group in _GROUPS:
        start = group + table.to_bytes(8)
        txn.delete_range(start, prefix_end(start))


def read_runs(reader: Reader, table: int) -> dict[tuple[UpdatePeriod, int], Runs]:
    """Read the runs of a table; raise StateCorrupt where they are none."""
    edges: dict[tuple[UpdatePeriod, int], array[int]] = {}
    start = _RUNS + table.to_bytes(8)
    for key, value in reader.scan(start, prefix_end(start)):
        period, column = _PERIODS[key[len(start)]], int.from_bytes(key[len(start) + 1 : -8])
        pair = (int.from_bytes(key[-8:]) - _SIGN, int.from_bytes(value) - _SIGN)
        edges.setdefault((period, column), array("q")).extend(pair)
    return {timeline: _checked(Runs(listed)) for timeline, listed in edges.items()}


def put_runs(
    txn: Transaction, table: int, timeline: tuple[UpdatePeriod, int], pairs: Iterable[tuple[int, int]]
) -> None:
    """Write runs [start, end) of one timeline."""
    start = _timeline_key(_RUNS, table, timeline)
    for first, end in pairs:
        txn.put(start + _ordinal(first), _ordinal(end))


def add_entry(txn: Transaction, table: int, entry: Entry, into: Runs) -> None:
    """Count one more partition with this value, and extend the runs in memory and in the store where it is the first."""
    if not into.add(entry.ordinal):
        count = _count(txn, table, entry)
        txn.put(_key(_COUNTS, table, entry), (count + 1).to_bytes(8))
        return
    run = into.run_at(entry.ordinal)
    assert run is not None, entry
    start = _timeline_key(_RUNS, table, entry.timeline)
    if run[1] > entry.ordinal + 1:
        txn.delete(start + _ordinal(entry.ordinal + 1))
    txn.put(start + _ordinal(run[0]), _ordinal(run[1]))


def drop_entry(txn: Transaction, table: int, entry: Entry, from_: Runs) -> None:
    """Count one partition less with this value, and cut the runs in memory and in the store where it was the last."""
    count = _count(txn, table, entry)
    if count > 2:
        txn.put(_key(_COUNTS, table, entry), (count - 1).to_bytes(8))
    elif count == 2:
        txn.delete(_key(_COUNTS, table, entry))
    else:
        _cut(txn, table, entry, from_)


def put_count(txn: Transaction, table: int, entry: Entry, count: int) -> None:
    """Write how many partitions have a value, more than one."""
    txn.put(_key(_COUNTS, table, entry), count.to_bytes(8))


def read_counts(reader: Reader, table: int) -> Iterator[tuple[Entry, int]]:
    """Yield every stored count."""
    start = _COUNTS + table.to_bytes(8)
    for key, value in reader.scan(start, prefix_end(start)):
        column = int.from_bytes(key[len(start) + 1 : -8])
        yield (
            Entry(_PERIODS[key[len(start)]], column, int.from_bytes(key[-8:]) - _SIGN),
            int.from_bytes(value),
        )


def read_entries(reader: Reader, table: int, values: Sequence[str]) -> tuple[Entry, ...] | None:
    """Return what a partition adds, or None where it is not known."""
    value = reader.get(_partition_key(table, values))
    return None if value is None else tuple(_entries(value))


def put_entries(txn: Transaction, table: int, values: Sequence[str], added: Iterable[Entry]) -> None:
    """Remember what a partition adds (perhaps nothing)."""
    plain = [(_CODES[entry.period], entry.column, entry.ordinal) for entry in added]
    txn.put(_partition_key(table, values), json.dumps(plain, separators=(",", ":")).encode())


def delete_entries(txn: Transaction, table: int, values: Sequence[str]) -> None:
    """Forget a partition."""
    txn.delete(_partition_key(table, values))


def read_all_entries(reader: Reader, table: int) -> Iterator[Entry]:
    """Yield what every partition of a table adds."""
    start = _PARTITIONS + table.to_bytes(8)
    for _, value in reader.scan(start, prefix_end(start)):
        yield from _entries(value)


def _cut(txn: Transaction, table: int, entry: Entry, from_: Runs) -> None:
    run = from_.run_at(entry.ordinal)
    if run is None:
        raise StateCorrupt("a partition is remembered whose value does not exist", period=entry.period.name)
    from_.drop(entry.ordinal)
    start = _timeline_key(_RUNS, table, entry.timeline)
    if run[0] < entry.ordinal:
        txn.put(start + _ordinal(run[0]), _ordinal(entry.ordinal))
    else:
        txn.delete(start + _ordinal(run[0]))
    if entry.ordinal + 1 < run[1]:
        txn.put(start + _ordinal(entry.ordinal + 1), _ordinal(run[1]))


def _count(txn: Transaction, table: int, entry: Entry) -> int:
    return int.from_bytes(txn.get(_key(_COUNTS, table, entry)) or b"\x01")


def _entries(value: bytes) -> Iterator[Entry]:
    return (Entry(_PERIODS[code], column, ordinal) for code, column, ordinal in _decoded(value))


def _decoded(value: bytes) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise StateCorrupt("a timeline record is no JSON", value=value[:80]) from error


def _checked(runs_: Runs) -> Runs:
    try:
        runs_.check()
    except AssertionError as error:
        raise StateCorrupt("stored runs overlap", first=runs_.first, last=runs_.last) from error
    return runs_


def _timeline_key(group: bytes, table: int, timeline: tuple[UpdatePeriod, int]) -> bytes:
    return group + table.to_bytes(8) + bytes([_CODES[timeline[0]]]) + timeline[1].to_bytes(2)


def _key(group: bytes, table: int, entry: Entry) -> bytes:
    return _timeline_key(group, table, entry.timeline) + _ordinal(entry.ordinal)


def _partition_key(table: int, values: Sequence[str]) -> bytes:
    return _PARTITIONS + table.to_bytes(8) + json.dumps(values, separators=(",", ":")).encode()


def _ordinal(ordinal: int) -> bytes:
    return (ordinal + _SIGN).to_bytes(8)
