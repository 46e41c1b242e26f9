"""A record for each table of the partition index,
kept in the catalog's own store, and the numbers of partitions.

A table is in the index only with its record. So leftovers in an abandoned index with its own store have no
effect when a catalog uses it again. A table that is loaded has a second record, under its name with
``STAGED``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final

import orjson

from handlers.catalog.following.table_info import TableInfo
from handlers.catalog.index.payloads import digest_data_columns
from state.errors import StateCorrupt
from state.store import Reader, Transaction, prefix_end


STAGED: Final = "\x00staged"
"""The suffix for the name of a table being loaded; a real name cannot contain control characters."""
_RECORDS: Final = b"pr/t/"
_STAGED_RECORDS: Final = b"pr/s/"
_COUNTS: Final = b"pr/n/"


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A table:
    the dictionary of its payloads and a digest of its data columns (both hexadecimal), and its location.

    The field names are stored.
    """

    dictionary: str
    columns: str
    location: str
    has_privileges: bool = False
    """Whether its partitions have their own privileges, which no event reports. Stored only if true."""

    @staticmethod
    def of(table: TableInfo, dictionary: bytes) -> TableRecord:
        """Return the record of a table."""
        return TableRecord(
            dictionary.hex(),
            digest_columns(table),
            table_location(table),
            has_privileges=_has_privileges(table),
        )

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        fields = asdict(self)
        if not self.has_privileges:
            del fields["has_privileges"]
        return orjson.dumps(fields)


class TableRecords:
    """The records and numbers of partitions as one transaction reads and changes them; ``flush`` writes them.

    Numbers are in the index's own store, next to the partitions that they count. So if that store has
    committed a transaction which the catalog's store has lost, both apply again or neither.
    """

    def __init__(self, txn: Transaction, own: Transaction) -> None:
        self._txn = txn
        self._own = own
        self._records: dict[str, TableRecord | None] = {}
        self._counts: dict[str, int] = {}
        self._changed: set[str] = set()

    def get(self, name: str) -> TableRecord | None:
        """Return a table's record; raise StateCorrupt if it is unreadable."""
        if name not in self._records:
            value = self._txn.get(_key(name))
            self._records[name] = None if value is None else _parse_record(value)
        return self._records[name]

    def save(self, name: str, record: TableRecord) -> None:
        """Set a table's record."""
        self._records[name] = record
        self._changed.add(name)

    def remove(self, name: str) -> None:
        """Remove a table's record and number; an absent one is not an error."""
        if self.get(name) is not None:
            self._records[name] = None
            self._changed.add(name)
        self._counts[name] = 0

    def count(self, name: str, more: int) -> None:
        """Add ``more`` to a table's number of partitions."""
        if more:
            self._counts[name] = self.partition_count(name) + more

    def partition_count(self, name: str) -> int:
        """Return a table's number of partitions."""
        return self._counts[name] if name in self._counts else _parse_count(self._own.get(_count_key(name)))

    def move(self, old: str, new: str) -> None:
        """Move a table's record and number to another name."""
        record, partitions = self.get(old), self.partition_count(old)
        self.remove(old)
        self._counts[new] = partitions
        if record is not None:
            self.save(new, record)

    def flush(self) -> None:
        """Write all changes; must be the last call in the transaction."""
        for name in self._changed:
            record = self._records[name]
            if record is None:
                self._txn.delete(_key(name))
            else:
                self._txn.put(_key(name), record.to_bytes())
        for name, count in self._counts.items():
            # In the index's own store, a repeated transaction may have counted a drop twice: the next load
            # counts again.
            if count > 0:
                self._own.put(_count_key(name), count.to_bytes(8))
            else:
                self._own.delete(_count_key(name))

    def list_changed(self) -> dict[str, int | None]:
        """Return the changed tables, except staged ones, with their numbers of partitions, None for a removed
        table.

        Call it before the end of the transaction.
        """
        names = {name for name in self._changed.union(self._counts) if not name.endswith(STAGED)}
        return {name: None if self.get(name) is None else self.partition_count(name) for name in names}


def read_counts(reader: Reader, own: Reader) -> dict[str, int]:
    """Return all tables with a record, except staged ones, and their numbers of partitions."""
    names = [key[len(_RECORDS) :].decode() for key in reader.scan_keys(_RECORDS, prefix_end(_RECORDS))]
    return {name: _parse_count(own.get(_count_key(name))) for name in names}


def read_record(reader: Reader, name: str) -> TableRecord | None:
    """Return a table's record as of ``reader``, None for a table without answers; raise StateCorrupt."""
    value = reader.get(_key(name))
    return None if value is None else _parse_record(value)


def digest_columns(table: TableInfo) -> str:
    """Return the digest of a table's data columns."""
    return "" if table.whole is None else digest_data_columns(table.whole)


def table_location(table: TableInfo) -> str:
    """Return a table's location, "" if it has none."""
    descriptor = None if table.whole is None else table.whole.sd
    return "" if descriptor is None else descriptor.location or ""


def _has_privileges(table: TableInfo) -> bool:
    return table.parameters.get("PARTITION_LEVEL_PRIVILEGE", "").lower() == "true"


def _key(name: str) -> bytes:
    if name.endswith(STAGED):
        return _STAGED_RECORDS + name[: -len(STAGED)].encode()
    return _RECORDS + name.encode()


def _count_key(name: str) -> bytes:
    return _COUNTS + name.encode()


def _parse_count(value: bytes | None) -> int:
    return 0 if value is None else int.from_bytes(value)


@lru_cache(maxsize=256)  # read for every answer, and rarely another one
def _parse_record(value: bytes) -> TableRecord:
    try:
        fields: dict[str, Any] = orjson.loads(value)
        return TableRecord(**fields)
    except (TypeError, orjson.JSONDecodeError) as error:
        raise StateCorrupt("a table of the partition index cannot be read", value=value[:80]) from error
