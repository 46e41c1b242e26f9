"""Repairs an index: removes entries that belong to nothing and completes missing postings.

In a store without transactions, a killed process may leave postings without a row, and rows and postings under a number that
belongs to no table. Readers ignore them (``partition_index``), so they only take space; ``repair`` removes them. A row that lacks a posting,
which only manual changes can cause, gets it back. Afterwards ``PartitionIndex.check`` succeeds.

The repair uses small transactions. It must be the store's only writer; readers may continue.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING

from state.partitions.index import records
from state.partitions.index.key_scan import KEYS_BATCH
from state.partitions.keys import partition_key
from state.store import RemoteReader, get_many, prefix_end


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from state.partitions.index.records import IndexedTable
    from state.store import Reader, Store


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The number of entries that were repaired."""

    unowned: int = 0
    """Rows and postings removed, under a number that belongs to no table."""
    orphaned: int = 0
    """Postings removed, without a row."""
    missing: int = 0
    """Postings of existing rows, written again."""

    def __add__(self, other: RepairReport) -> RepairReport:
        mine, others = asdict(self), asdict(other)
        return RepairReport(**{name: mine[name] + others[name] for name in mine})


def repair(store: Store) -> RepairReport:
    """Remove entries that belong to nothing and write missing postings; return the counts. Raises what the store raises."""
    tables = [table for _, table in records.read_tables(store)]
    found = RepairReport(unowned=_remove_unowned(store, {table.number for table in tables}))
    for table in tables:
        found += RepairReport(orphaned=_remove_orphaned(store, table), missing=_write_missing(store, table))
    return found


def _remove_unowned(store: Store, known: set[int]) -> int:
    removed = 0
    for number in sorted(set(records.stored_numbers(store)) - known):
        with store.transaction() as txn:
            removed += records.count_keys(txn, number)
            records.clear(txn, number)
    return removed


def _remove_orphaned(store: Store, table: IndexedTable) -> int:
    removed = 0
    for chunk in _chunks(store.scan_keys(*records.posting_range(table))):
        rows = [table.rows + partition_key.strip_prefix(posting) for posting in chunk]
        existing = _existing(store, rows)
        orphans = [posting for posting, row in zip(chunk, rows, strict=True) if row not in existing]
        if orphans:
            with store.transaction() as txn:
                for posting in orphans:
                    txn.delete(posting)
        removed += len(orphans)
    return removed


def _write_missing(store: Store, table: IndexedTable) -> int:
    written = 0
    for chunk in _chunks(store.scan_keys(table.rows, prefix_end(table.rows))):
        postings = [posting for row in chunk for posting in records.posting_keys(table, row)]
        existing = _existing(store, postings)
        missing = [posting for posting in postings if posting not in existing]
        if missing:
            with store.transaction() as txn:
                for posting in missing:
                    txn.put(posting, b"")
        written += len(missing)
    return written


def _existing(reader: Reader, keys: Sequence[bytes]) -> set[bytes]:
    if isinstance(reader, RemoteReader):
        return reader.existing(keys)
    found = get_many(reader, keys)
    return {key for key, value in zip(keys, found, strict=True) if value is not None}


def _chunks(found: Iterator[bytes]) -> Iterator[list[bytes]]:
    while chunk := list(islice(found, KEYS_BATCH)):
        yield chunk
