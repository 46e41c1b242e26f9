"""The quarantined tables of a policy, with the reason of each.

A permanent failure of one table must neither stop the policy nor be forgotten. Later events of a quarantined table are
skipped, so that the target keeps the last correct state, until the table is bootstrapped again or dropped. The list is part
of the projection's state and is written together with its position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

from state.errors import StateCorrupt, TidelineError
from state.store import Reader, Transaction, prefix_end


_PREFIX: Final = b"quarantine/"


@dataclass(frozen=True, slots=True)
class QuarantinedTable:
    """A quarantined table, the event that failed, and why. The field names are those of the stored JSON."""

    table: str
    event_id: int
    code: str
    reason: str


class Quarantine:
    """The quarantined tables of one policy, by the table name at the source."""

    def __init__(self) -> None:
        self._tables: dict[str, QuarantinedTable] = {}
        self._dirty: set[str] = set()

    def load(self, reader: Reader) -> None:
        """Read the stored list; raise StateCorrupt if an entry cannot be read."""
        self._dirty.clear()
        self._tables.clear()
        for key, value in reader.scan(_PREFIX, prefix_end(_PREFIX)):
            try:
                entry = QuarantinedTable(**orjson.loads(value))
            except (TypeError, orjson.JSONDecodeError) as error:
                raise StateCorrupt("a quarantine entry cannot be read", key=key, reason=str(error)) from error
            self._tables[entry.table] = entry

    def flush(self, txn: Transaction) -> None:
        """Write the changes."""
        for table in self._dirty:
            key = _PREFIX + table.encode()
            entry = self._tables.get(table)
            if entry is None:
                txn.delete(key)
            else:
                fields = {name: getattr(entry, name) for name in QuarantinedTable.__slots__}
                txn.put(key, orjson.dumps(fields))
        self._dirty.clear()

    @property
    def unsaved(self) -> bool:
        """Whether there are changes that are not stored yet."""
        return bool(self._dirty)

    def add(self, table: str, event_id: int, error: TidelineError) -> None:
        """Quarantine ``table``; if it already is, the first reason stays."""
        if table not in self._tables:
            self._tables[table] = QuarantinedTable(table, event_id, error.code, str(error))
            self._dirty.add(table)

    def release(self, table: str) -> None:
        """Follow ``table`` again, as after a drop or a new bootstrap; do nothing if it is not quarantined."""
        if self._tables.pop(table, None) is not None:
            self._dirty.add(table)

    def release_all(self) -> None:
        """Follow every table again, as after a drop of the database."""
        for table in tuple(self._tables):
            self.release(table)

    def rename(self, old: str, new: str) -> None:
        """Move the entry of ``old``, if any, to the table's new name."""
        entry = self._tables.get(old)
        if entry is not None:
            self.release(old)
            self._tables[new] = QuarantinedTable(new, entry.event_id, entry.code, entry.reason)
            self._dirty.add(new)

    def __contains__(self, table: object) -> bool:
        """Whether the table is quarantined."""
        return table in self._tables

    def entries(self) -> tuple[QuarantinedTable, ...]:
        """Return all entries, by table name."""
        return tuple(self._tables[table] for table in sorted(self._tables))
