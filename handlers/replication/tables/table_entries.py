"""Entries of single tables in a policy's state:
at most one for each table, kept in memory and stored with the position.

The quarantine and the loads of a policy are such entries, in their own modules; the four smaller kinds are
here. Changes stay in memory until the store transaction that records the position that they belong to. An
entry follows its table when the table is renamed (``policy_tables``).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import orjson

from handlers.replication.policy.replicability import MATERIALIZED_VIEW
from state.errors import StateCorrupt
from state.store import Reader, Transaction, prefix_end


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
        """Read the stored entries; raise StateCorrupt if one is unreadable."""
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
        """Add the entry, or replace the entry of its table; return it."""
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


@dataclass(frozen=True, slots=True)
class UnreplicatedTable:
    """A table of the source database that is not replicated. The field names are those of the stored JSON."""

    table: str
    event_id: int
    """The event that showed its kind."""
    code: str = MATERIALIZED_VIEW.code
    """The kind of table; entries of older versions are materialized views."""
    reason: str = MATERIALIZED_VIEW.reason
    on_target: bool = False
    """Whether the target still has rows from a time when the table was replicated."""


class UnreplicatedTables(TableEntries[UnreplicatedTable]):
    """The tables of one policy that cannot be replicated, by name."""

    prefix = b"materialized-view/"
    kind = UnreplicatedTable


@dataclass(frozen=True, slots=True)
class LeftTable:
    """A table that left the policy. The field names are those of the stored JSON."""

    table: str
    left_s: int = 0
    """Unix time; 0 if the state file was lost since."""


class LeftTables(TableEntries[LeftTable]):
    """The tables that left one policy, by the name at the source."""

    prefix = b"left/"
    kind = LeftTable

    def add(self, table: str) -> None:
        """Record that ``table`` left now."""
        if table not in self:
            self.put(LeftTable(table, int(time.time())))

    def keep_only(self, present: Iterable[str]) -> None:
        """Forget the tables that the target no longer has."""
        names = set(present)
        for entry in self.entries():
            if entry.table not in names:
                self.remove(entry.table)


UNKNOWN: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CopiedAhead:
    """A table whose files were copied in a state that may be later than the event of the copy.

    The field names are those of the stored JSON.
    """

    table: str
    event_id: int
    """The source's newest event after the copy; ``UNKNOWN`` if it was unreachable."""


class CopiedAheadTables(TableEntries[CopiedAhead]):
    """The tables of one policy with copies of later states, by the name at the source."""

    prefix = b"ahead/"
    kind = CopiedAhead

    def __init__(self) -> None:
        super().__init__()
        self._uncertain_event_id = -1

    def distrust(self, event_id: int) -> None:
        """Note that an earlier process may have copied files for events up to this one,
        and that its entries are lost.
        """
        self._uncertain_event_id = event_id

    def record(self, table: str, newest: int, applied: int) -> None:
        """Record a copy for event ``applied``, made before the source logged any event after ``newest``."""
        present = self.get(table)
        copied_up_to = max(newest, present.event_id if present else 0)
        if copied_up_to > applied:
            self.put(CopiedAhead(table, copied_up_to))
        else:
            self.remove(table)

    def covers(self, table: str, event_id: int) -> bool:
        """Whether ``event_id`` may have happened at the source before the table's last copy."""
        entry = self.get(table)
        return event_id <= max(self._uncertain_event_id, entry.event_id if entry else -1)


NAMES_MAX: Final = 1_000
"""Partitions of a table recorded by name."""


@dataclass(frozen=True, slots=True)
class UncheckedMarks:
    """Partitions of a table whose mark of accurate statistics is still to be compared with the source's.

    The field names are those of the stored JSON.
    """

    table: str
    partitions: Sequence[str] = field(default=())
    """Names of the partitions; all of the table if empty."""


class UncheckedTables(TableEntries[UncheckedMarks]):
    """The tables of one policy with unchecked marks, by the name at the source."""

    prefix = b"unchecked/"
    kind = UncheckedMarks

    def add(self, table: str, partitions: Sequence[str]) -> None:
        """Add partitions of a table; more than ``NAMES_MAX`` become all partitions."""
        present = self.get(table)
        if present is not None and not present.partitions:
            return
        names = sorted({*(present.partitions if present else ()), *partitions})
        self.put(UncheckedMarks(table, names if len(names) <= NAMES_MAX else ()))
