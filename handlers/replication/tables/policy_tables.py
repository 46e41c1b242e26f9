"""All facts about the tables of one policy, by their names at the source. One object owns them, because a
rename or drop concerns all of them: an entry under a former name would later be mistaken for that of another
table. A further kind of entry is one field and one line of ``_followed`` or ``_stored``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from handlers.replication.tables.kept_entries import format_entries
from handlers.replication.tables.pause import find_pause_s
from handlers.replication.tables.quarantine import Quarantine
from handlers.replication.tables.table_entries import (
    CopiedAheadTables,
    LeftTables,
    TableEntries,
    UncheckedTables,
    UnreplicatedTables,
)
from handlers.replication.tables.table_loads import TableLoads
from state.store import Reader, Transaction
from state.transactions.unproven_commits import UnprovenCommits
from state.transactions.write_id_mapping import WriteIdMapping


class TableObjects(Protocol):
    """Objects of the target kept in memory by table name."""

    def forget(self, name: str) -> None:
        """Remove a table."""

    def clear(self) -> None:
        """Remove everything."""


class StoredState(Protocol):
    """A part of the policy's state kept in memory and stored with the position."""

    def load(self, reader: Reader) -> None:
        """Replace the memory by the stored entries."""

    def flush(self, txn: Transaction) -> None:
        """Write the changes since the last call."""


@dataclass(frozen=True, slots=True)
class PolicyTables:
    """Write ids and entries, which are stored with the position, and ``objects``. Used by one thread."""

    db: str
    """The source database."""
    objects: TableObjects
    write_ids: WriteIdMapping = field(default_factory=WriteIdMapping)
    unproven: UnprovenCommits = field(default_factory=UnprovenCommits)
    quarantine: Quarantine = field(default_factory=Quarantine)
    loads: TableLoads = field(default_factory=TableLoads)
    unreplicated: UnreplicatedTables = field(default_factory=UnreplicatedTables)
    left: LeftTables = field(default_factory=LeftTables)
    copied_ahead: CopiedAheadTables = field(default_factory=CopiedAheadTables)
    unchecked_marks: UncheckedTables = field(default_factory=UncheckedTables)

    def rename(self, old: str, new: str) -> None:
        """Follow a rename. Raises Transient if a load of the table does not end in time; the event is then
        repeated.

        Entries of two kinds do not follow: ``unreplicated`` ones, because the event of the rename shows
        whether the table can be replicated under its new name, and ``left`` ones, because tables that left
        the policy are not renamed on the target.
        """
        self.write_ids.rename_table(f"{self.db}.{old}", f"{self.db}.{new}")
        for entries in self._followed():
            entries.rename(old, new)
        self.objects.forget(old)
        self.objects.forget(new)

    def forget(self, table: str) -> None:
        """Forget a table that exists neither at the source nor on the target.
        Raises Transient as ``rename`` does.
        """
        self.objects.forget(table)
        self.write_ids.drop_table(f"{self.db}.{table}")
        for entries in self._followed():
            entries.remove(table)

    def forget_all(self) -> None:
        """Forget all tables, because the database was dropped. Raises Transient as ``rename`` does."""
        self.loads.remove_all()
        self.objects.clear()
        self.write_ids.drop_database(self.db)
        for entries in (*self._followed(), self.unreplicated):
            entries.remove_all()

    def load(self, reader: Reader) -> None:
        """Load the entries stored with the position."""
        for part in self._stored():
            part.load(reader)

    def flush(self, txn: Transaction) -> None:
        """Write the changes since the last record into the transaction that records the position."""
        for part in self._stored():
            part.flush(txn)

    def to_parameters(self, reader: Reader) -> dict[str, str]:
        """Return the target database's parameters with the entries of incomplete and left tables, and with
        the pause, which only the policy's state has (``kept_entries``).
        """
        return format_entries(
            self.quarantine.entries(), self.loads.waiting(), self.left.entries(), find_pause_s(reader)
        )

    def _followed(self) -> Sequence[TableEntries[Any]]:
        """Return the entries that follow their table when it is renamed or dropped."""
        return self.quarantine, self.loads, self.copied_ahead, self.unchecked_marks

    def _stored(self) -> Sequence[StoredState]:
        return self.write_ids, self.unproven, *self._followed(), self.unreplicated, self.left
