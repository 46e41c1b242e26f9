"""Entries of single tables in a policy's state: at most one for each table, kept in memory and stored with the position.

The quarantine and the loads of a policy are such entries. Changes are collected in memory and written in the same store
transaction as the position that they belong to. An entry follows its table when the table is renamed.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import orjson

from state.errors import StateCorrupt
from state.store import prefix_end


if TYPE_CHECKING:
    from state.store import Reader, Transaction


class TableEntry(Protocol):
    """A frozen dataclass with the name of its table; the field names are those of the stored JSON."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def table(self) -> str:
        """The table's name at the source."""


E = TypeVar("E", bound=TableEntry)


class TableEntries(Generic[E]):
    """The entries of one kind, by table name. Used by one thread, except for ``entries``."""

    prefix: ClassVar[bytes]
    """Prefix of the keys in the store."""
    kind: ClassVar[type[Any]]
    """The class of the entries."""

    def __init__(self) -> None:
        self._entries: dict[str, E] = {}
        self._dirty: set[str] = set()

    def load(self, reader: Reader) -> None:
        """Read the stored entries; raise StateCorrupt if one cannot be read."""
        self._dirty.clear()
        self._entries.clear()
        for key, value in reader.scan(self.prefix, prefix_end(self.prefix)):
            try:
                entry: E = self.kind(**orjson.loads(value))
            except (TypeError, orjson.JSONDecodeError) as error:
                raise StateCorrupt(
                    "an entry of a table cannot be read", key=key, reason=str(error)
                ) from error
            self._entries[entry.table] = entry

    def flush(self, txn: Transaction) -> None:
        """Write the changes."""
        for table in self._dirty:
            key = self.prefix + table.encode()
            entry = self._entries.get(table)
            if entry is None:
                txn.delete(key)
            else:
                txn.put(key, orjson.dumps(asdict(entry)))
        self._dirty.clear()

    @property
    def unsaved(self) -> bool:
        """Whether there are changes that are not stored yet."""
        return bool(self._dirty)

    def put(self, entry: E) -> E:
        """Add the entry, or replace the one of its table; return it."""
        self._entries[entry.table] = entry
        self._dirty.add(entry.table)
        return entry

    def remove(self, table: str) -> None:
        """Remove the entry of ``table``; do nothing if there is none."""
        if self._entries.pop(table, None) is not None:
            self._dirty.add(table)

    def remove_all(self) -> None:
        """Remove all entries, as after a drop of the database."""
        for table in tuple(self._entries):
            self.remove(table)

    def rename(self, old: str, new: str) -> None:
        """Move the entry of ``old``, if any, to the table's new name."""
        entry = self._entries.get(old)
        if entry is not None:
            self.remove(old)
            self.put(replace(entry, table=new))

    def get(self, table: str) -> E | None:
        """Return the entry of a table; None if there is none."""
        return self._entries.get(table)

    def __contains__(self, table: object) -> bool:
        """Whether the table has an entry."""
        return table in self._entries

    def __len__(self) -> int:
        """How many tables have an entry."""
        return len(self._entries)

    def entries(self) -> tuple[E, ...]:
        """Return all entries, by table name."""
        present = dict(self._entries)  # one step, because other threads call this
        return tuple(present[table] for table in sorted(present))
