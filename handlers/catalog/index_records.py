"""What the catalog's own store keeps of each table of the partition index, beside the index.

The record is also what makes a table count as indexed: an index in a store of its own that was left and is followed again later is
not believed. A table under load has one of its own, under its name with ``STAGED``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import orjson

from handlers.catalog.payloads import columns_hash
from state.errors import StateCorrupt
from state.store import prefix_end


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.catalog.seen import TableSeen
    from state.store import Reader, Transaction


STAGED: Final = "\x00staged"
"""What the name of a table under load ends with: no table's name has control characters."""
_RECORDS: Final = b"pr/t/"
_STAGED_RECORDS: Final = b"pr/s/"


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """One table: the dictionary of its payloads, a digest of its data columns (both hexadecimal), its location."""

    dictionary: str
    columns: str
    location: str

    @staticmethod
    def of(table: TableSeen, dictionary: bytes) -> IndexRecord:
        """Return the record of a table as the metastore shows it."""
        return IndexRecord(dictionary.hex(), columns_of(table), location_of(table))


class IndexRecords:
    """The records as one transaction sees and changes them."""

    def __init__(self, txn: Transaction) -> None:
        self._txn = txn
        self._known: dict[str, IndexRecord | None] = {}
        self.changed: set[str] = set()
        """Tables whose record came or went, not counting those under load."""

    def get(self, name: str) -> IndexRecord | None:
        """Return a table's record; raise StateCorrupt where it cannot be read."""
        if name not in self._known:
            value = self._txn.get(_key(name))
            self._known[name] = None if value is None else _read(value)
        return self._known[name]

    def save(self, name: str, record: IndexRecord) -> None:
        """Write a table's record."""
        self._set(name, record)
        self._txn.put(_key(name), orjson.dumps(asdict(record)))

    def remove(self, name: str) -> None:
        """Remove a table's record; an absent one is no error."""
        if self.get(name) is not None:
            self._set(name, None)
            self._txn.delete(_key(name))

    def _set(self, name: str, record: IndexRecord | None) -> None:
        self._known[name] = record
        if not name.endswith(STAGED):
            self.changed.add(name)


def recorded(reader: Reader) -> set[str]:
    """Return the names of all tables that have a record, those under load left out."""
    return {key[len(_RECORDS) :].decode() for key in reader.scan_keys(_RECORDS, prefix_end(_RECORDS))}


def columns_of(table: TableSeen) -> str:
    """Return the digest of a table's data columns."""
    return "" if table.whole is None else columns_hash(table.whole)


def location_of(table: TableSeen) -> str:
    """Return a table's location, "" where it has none."""
    descriptor = None if table.whole is None else table.whole.sd
    return "" if descriptor is None else descriptor.location or ""


def _key(name: str) -> bytes:
    if name.endswith(STAGED):
        return _STAGED_RECORDS + name[: -len(STAGED)].encode()
    return _RECORDS + name.encode()


def _read(value: bytes) -> IndexRecord:
    try:
        fields: Mapping[str, str] = orjson.loads(value)
        return IndexRecord(**fields)
    except (TypeError, orjson.JSONDecodeError) as error:
        raise StateCorrupt("a table of the partition index cannot be read", value=value[:80]) from error
