"""Tables that are not followed any more, and why.

One table's permanent failure must not stop a policy, and must not be forgotten either: from then on its events are passed
over, so that the target keeps the last state that was right, until the table is bootstrapped again. The list is part of the
projection's state and is written with its position.
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
    """Why and since when a table is not followed."""

    table: str
    event_id: int
    code: str
    reason: str


class Quarantine:
    """The confined tables of one policy, by table name (of the source)."""

    def __init__(self) -> None:
        self._tables: dict[str, QuarantinedTable] = {}
        self._dirty: set[str] = set()

    def load(self, reader: Reader) -> None:
        """Read the stored list; raise StateCorrupt where an entry is no entry."""
        self._dirty.clear()
        self._tables.clear()
        for key, value in reader.scan(_PREFIX, prefix_end(_PREFIX)):
            try:
                confinement = QuarantinedTable(**orjson.loads(value))
            except (TypeError, orjson.JSONDecodeError) as error:
                raise StateCorrupt("a quarantine entry cannot be read", key=key, reason=str(error)) from error
            self._tables[confinement.table] = confinement

    def flush(self, txn: Transaction) -> None:
        """Write what changed."""
        for table in self._dirty:
            key = _PREFIX + table.encode()
            confinement = self._tables.get(table)
            if confinement is None:
                txn.delete(key)
            else:
                fields = {name: getattr(confinement, name) for name in QuarantinedTable.__slots__}
                txn.put(key, orjson.dumps(fields))
        self._dirty.clear()

    @property
    def unsaved(self) -> bool:
        """Whether there are changes that no store holds yet."""
        return bool(self._dirty)

    def add(self, table: str, event_id: int, error: TidelineError) -> None:
        """Stop following ``table``; the first reason stands."""
        if table not in self._tables:
            self._tables[table] = QuarantinedTable(table, event_id, error.code, str(error))
            self._dirty.add(table)

    def release(self, table: str) -> None:
        """Follow ``table`` again, as after a drop or a new bootstrap; an unconfined one is no error."""
        if self._tables.pop(table, None) is not None:
            self._dirty.add(table)

    def release_all(self) -> None:
        """Follow every table again, as after the database was dropped."""
        for table in tuple(self._tables):
            self.release(table)

    def rename(self, old: str, new: str) -> None:
        """Carry a confinement over to the table's new name."""
        confinement = self._tables.get(old)
        if confinement is not None:
            self.release(old)
            self._tables[new] = QuarantinedTable(
                new, confinement.event_id, confinement.code, confinement.reason
            )
            self._dirty.add(new)

    def __contains__(self, table: object) -> bool:
        """Whether the table is confined."""
        return table in self._tables

    def entries(self) -> tuple[QuarantinedTable, ...]:
        """Return all confinements, by table name."""
        return tuple(self._tables[table] for table in sorted(self._tables))
