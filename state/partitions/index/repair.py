"""Putting an index right whose store may be left with entries that belong to nothing.

A store without transactions can be left with postings without a row, and with rows and postings under a number that no table
has, by a process that was killed. Readers are never misled by them (``remote``), they only take space; ``repair`` removes
them. A row without one of its postings, which only somebody else's hand can cause, gets it back. Afterwards ``check`` holds.

It works in small transactions, as the store's only writer, beside readers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING

from state.partitions.index import records
from state.partitions.index.partition_index import AT_ONCE
from state.partitions.keys import partition_key
from state.store import RemoteReader, get_many, prefix_end


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from state.partitions.index.records import IndexedTable
    from state.store import Reader, Store


@dataclass(frozen=True, slots=True)
class RepairReport:
    """How many entries were put right."""

    strange: int = 0
    """Rows and postings under a number that no table has, removed."""
    superfluous: int = 0
    """Postings without a row, removed."""
    missing: int = 0
    """Postings of rows, written anew."""

    def __add__(self, other: RepairReport) -> RepairReport:
        mine, others = asdict(self), asdict(other)
        return RepairReport(**{name: mine[name] + others[name] for name in mine})


def repair(store: Store) -> RepairReport:
    """Remove what belongs to nothing and complete the postings; return what was found. Raises what the store raises."""
    tables = [table for _, table in records.read_tables(store)]
    found = RepairReport(strange=_remove_strange(store, {table.number for table in tables}))
    for table in tables:
        found += RepairReport(superfluous=_remove_superfluous(store, table), missing=_complete(store, table))
    return found


def _remove_strange(store: Store, known: set[int]) -> int:
    removed = 0
    for number in sorted(set(records.stored_numbers(store)) - known):
        with store.transaction() as txn:
            removed += records.clear(txn, number)
    return removed


def _remove_superfluous(store: Store, table: IndexedTable) -> int:
    removed = 0
    for some in _chunks(store.scan_keys(*records.posting_range(table))):
        rows = [table.rows + partition_key.strip_prefix(posting) for posting in some]
        there = _existing(store, rows)
        doomed = [posting for posting, row in zip(some, rows, strict=True) if row not in there]
        if doomed:
            with store.transaction() as txn:
                for posting in doomed:
                    txn.delete(posting)
        removed += len(doomed)
    return removed


def _complete(store: Store, table: IndexedTable) -> int:
    written = 0
    for some in _chunks(store.scan_keys(table.rows, prefix_end(table.rows))):
        postings = [posting for row in some for posting in records.postings_of(table, row)]
        there = _existing(store, postings)
        missing = [posting for posting in postings if posting not in there]
        if missing:
            with store.transaction() as txn:
                for posting in missing:
                    txn.put(posting, b"")
        written += len(missing)
    return written


def _existing(reader: Reader, wanted: Sequence[bytes]) -> set[bytes]:
    if isinstance(reader, RemoteReader):
        return reader.existing(wanted)
    found = get_many(reader, wanted)
    return {key for key, value in zip(wanted, found, strict=True) if value is not None}


def _chunks(found: Iterator[bytes]) -> Iterator[list[bytes]]:
    while some := list(islice(found, AT_ONCE)):
        yield some
