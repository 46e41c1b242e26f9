"""What the catalog's own store keeps of each table of the partition index, beside the index.

The record is also what makes a table count as indexed: an index in a store of its own that was left and is followed again later is
not believed. A table under load has one of its own, under its name with ``STAGED``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from handlers.catalog.index.payloads import columns_hash
from state.errors import StateCorrupt
from state.store import prefix_end


if TYPE_CHECKING:
    from handlers.catalog.following.table_info import TableInfo
    from state.store import Reader, Transaction


STAGED: Final = "\x00staged"
"""What the name of a table under load ends with: no table's name has control characters."""
_RECORDS: Final = b"pr/t/"
_STAGED_RECORDS: Final = b"pr/s/"
_COUNTS: Final = b"pr/n/"


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """One table: the dictionary of its payloads, a digest of its data columns (both hexadecimal), its location."""

    dictionary: str
    columns: str
    location: str

    @staticmethod
    def of(table: TableInfo, dictionary: bytes) -> IndexRecord:
        """Return the record of a table as the metastore shows it."""
        return IndexRecord(dictionary.hex(), digest_columns(table), table_location(table))


class IndexRecords:
    """The records as one transaction sees and changes them, with the numbers of partitions; written by ``flush``.

    Numbers go into the index's own store, with the partitions that they count: where that has a transaction which the catalog's
    has lost, both are repeated or neither.
    """

    def __init__(self, txn: Transaction, own: Transaction) -> None:
        self._txn = txn
        self._own = own
        self._records: dict[str, IndexRecord | None] = {}
        self._counts: dict[str, int] = {}
        self._changed: set[str] = set()

    def get(self, name: str) -> IndexRecord | None:
        """Return a table's record; raise StateCorrupt where it cannot be read."""
        if name not in self._records:
            value = self._txn.get(_key(name))
            self._records[name] = None if value is None else _read(value)
        return self._records[name]

    def save(self, name: str, record: IndexRecord) -> None:
        """Change a table's record."""
        self._records[name] = record
        self._changed.add(name)

    def remove(self, name: str) -> None:
        """Remove a table's record and number; an absent one is no error."""
        if self.get(name) is not None:
            self._records[name] = None
            self._changed.add(name)
        self._counts[name] = 0

    def count(self, name: str, more: int) -> None:
        """A table has ``more`` partitions than before."""
        if more:
            self._counts[name] = self.number(name) + more

    def number(self, name: str) -> int:
        """Return how many partitions a table has."""
        return self._counts[name] if name in self._counts else _number(self._own.get(_count_key(name)))

    def move(self, old: str, new: str) -> None:
        """Give a table's record and number to another name."""
        record, number = self.get(old), self.number(old)
        self.remove(old)
        self._counts[new] = number
        if record is not None:
            self.save(new, record)

    def flush(self) -> None:
        """Write what changed: the last thing in the transaction."""
        for name in self._changed:
            record = self._records[name]
            if record is None:
                self._txn.delete(_key(name))
            else:
                self._txn.put(_key(name), orjson.dumps(asdict(record)))
        for name, count in self._counts.items():
            if count:
                self._own.put(_count_key(name), count.to_bytes(8))
            else:
                self._own.delete(_count_key(name))

    def shown(self) -> dict[str, int | None]:
        """Return the tables that changed with their partitions, None for one that is gone; those under load are left out.

        To be asked before the transaction ends.
        """
        names = {name for name in self._changed.union(self._counts) if not name.endswith(STAGED)}
        return {name: None if self.get(name) is None else self.number(name) for name in names}


def read_counts(reader: Reader, own: Reader) -> dict[str, int]:
    """Return all tables that have a record with their numbers of partitions, those under load left out."""
    names = [key[len(_RECORDS) :].decode() for key in reader.scan_keys(_RECORDS, prefix_end(_RECORDS))]
    return {name: _number(own.get(_count_key(name))) for name in names}


def digest_columns(table: TableInfo) -> str:
    """Return the digest of a table's data columns."""
    return "" if table.whole is None else columns_hash(table.whole)


def table_location(table: TableInfo) -> str:
    """Return a table's location, "" where it has none."""
    descriptor = None if table.whole is None else table.whole.sd
    return "" if descriptor is None else descriptor.location or ""


def _key(name: str) -> bytes:
    if name.endswith(STAGED):
        return _STAGED_RECORDS + name[: -len(STAGED)].encode()
    return _RECORDS + name.encode()


def _count_key(name: str) -> bytes:
    return _COUNTS + name.encode()


def _number(value: bytes | None) -> int:
    return 0 if value is None else int.from_bytes(value)


def _read(value: bytes) -> IndexRecord:
    try:
        fields: dict[str, Any] = orjson.loads(value)
        return IndexRecord(**fields)
    except (TypeError, orjson.JSONDecodeError) as error:
        raise StateCorrupt("a table of the partition index cannot be read", value=value[:80]) from error
