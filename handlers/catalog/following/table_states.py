"""Which tables the catalog watches, how far each was when it was listed, and which wait to be loaded or are quarantined.

A table's own ``as_of`` is the newest event id before its listing began: events up to it are in the listing and must not be
applied again (a drop would undo what a later add has put there), later ones may be in it and are applied, which is harmless
because every change is idempotent. So tables can be loaded one by one, at any time, while events flow. Only a rename of the table
during its listing is not repaired by its event, since what the listing missed is told by no later one: hence ``until``.

A table that is loaded in pieces has *begun*: its ``as_of`` is that of the beginning, and events after that reach what is staged,
between pieces. Which piece comes next is stored, so loading goes on there after a restart.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import orjson

from state.errors import StateCorrupt, TidelineError
from state.store import Reader, Transaction, prefix_end


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_TABLES: Final = b"ct/t/"
_LOADS: Final = b"ct/l/"
_BEGUN: Final = b"ct/b/"


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """One table."""

    columns: tuple[str, ...]
    as_of: int
    until: int = 0
    """The newest event id after its listing had ended: a rename up to here may have cut the listing short."""
    code: str | None = None
    """Code of the error that confined it; None while it is followed."""
    reason: str | None = None
    published: str | None = None
    """What Tideline wrote last into the table's properties as their event id."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """A table that is being loaded in pieces."""

    as_of: int
    columns: tuple[str, ...]
    last: str = ""
    """Name of the last partition of the last piece; names are taken in their order as text."""
    done: int = 0
    total: int = 0
    """How many partitions are staged, and how many there were to be."""


class TableStates:
    """The tables of one source, in memory and in the store; one thread's, but for what says "other threads"."""

    def __init__(self) -> None:
        self._tables: dict[str, WatchedTable] = {}
        self._loads: dict[str, str] = {}
        self._begun: dict[str, LoadProgress] = {}
        self._confined: Mapping[str, str] = {}
        """Table to reason; replaced whole, since other threads look at it."""

    def open(self, reader: Reader) -> None:
        """Read the stored list; raise StateCorrupt where an entry is none."""
        try:
            self._tables = {name: _watched(value) for name, value in _entries(reader, _TABLES)}
            self._begun = {name: _read_begun(value) for name, value in _entries(reader, _BEGUN)}
        except (TypeError, KeyError, orjson.JSONDecodeError) as error:
            raise StateCorrupt("a watched table cannot be read", reason=str(error)) from error
        self._loads = {name: value.decode() for name, value in _entries(reader, _LOADS)}
        self._confined = {n: w.reason or "" for n, w in self._tables.items() if w.code is not None}

    def get(self, name: str) -> WatchedTable | None:
        """Return what is known of a table; None where it is not watched (perhaps waiting to be loaded)."""
        return self._tables.get(name)

    def put(self, txn: Transaction, name: str, watched: WatchedTable) -> None:
        """Watch a table."""
        self._tables[name] = watched
        self._note(name, watched)
        txn.put(_TABLES + name.encode(), orjson.dumps(asdict(watched)))

    def forget(self, txn: Transaction, name: str) -> None:
        """Watch it no longer, nor load it; an unknown one is no error."""
        if self._tables.pop(name, None) is not None:
            txn.delete(_TABLES + name.encode())
            self._note(name, None)
        self.finish_load(txn, name)

    def quarantine(self, txn: Transaction, name: str, error: TidelineError) -> None:
        """Do not follow a table any more; the first reason stands."""
        watched = self._tables.get(name) or WatchedTable((), 0)
        if watched.code is None:
            self.put(txn, name, replace(watched, code=error.code, reason=str(error)))

    def request_load(self, txn: Transaction, name: str, reason: str) -> None:
        """Have a table loaded from the source, from the start; what happens to it until then does not count."""
        self._stop(txn, name)
        self._loads[name] = reason
        txn.put(_LOADS + name.encode(), reason.encode())

    def save_progress(self, txn: Transaction, name: str, begun: LoadProgress) -> None:
        """So far a table that waits is loaded."""
        self._begun[name] = begun
        txn.put(_BEGUN + name.encode(), orjson.dumps(asdict(begun)))

    def progress(self, name: str) -> LoadProgress | None:
        """Return how far a table is loaded; None where it does not wait or has not begun. Other threads may ask."""
        return self._begun.get(name)

    def finish_load(self, txn: Transaction, name: str) -> None:
        """A table needs no loading any more."""
        self._stop(txn, name)
        if self._loads.pop(name, None) is not None:
            txn.delete(_LOADS + name.encode())

    def is_waiting(self, name: str) -> bool:
        """Whether a table waits to be loaded."""
        return name in self._loads

    def next_load(self) -> tuple[str, str] | None:
        """Return (table, reason) of one that waits, or None."""
        return next(iter(self._loads.items()), None)

    def under_load(self) -> Mapping[str, LoadProgress]:
        """Return how far each table is that is being loaded in pieces: a copy, for other threads too."""
        return dict(self._begun)

    def waiting(self) -> Mapping[str, str]:
        """Return a view of all that wait, with the reason; other threads look up and count, but do not iterate."""
        return MappingProxyType(self._loads)

    def quarantined(self) -> Mapping[str, str]:
        """Return the quarantined tables, with the reason."""
        return self._confined

    def tables_of_db(self, db: str) -> list[str]:
        """Return every table of a database that is watched or waits."""
        return sorted(name for name in {*self._tables, *self._loads} if name.startswith(f"{db}."))

    def watched(self) -> list[str]:
        """Return every watched table, by name."""
        return sorted(self._tables)

    def _stop(self, txn: Transaction, name: str) -> None:
        if self._begun.pop(name, None) is not None:
            txn.delete(_BEGUN + name.encode())

    def _note(self, name: str, watched: WatchedTable | None) -> None:
        """Keep the quarantined tables apart: there are few, and they are asked for with every answer."""
        if name not in self._confined and (watched is None or watched.code is None):
            return
        others = {n: reason for n, reason in self._confined.items() if n != name}
        if watched is not None and watched.code is not None:
            self._confined = {**others, name: watched.reason or ""}
        else:
            self._confined = others


def _entries(reader: Reader, prefix: bytes) -> Iterator[tuple[str, bytes]]:
    for key, value in reader.scan(prefix, prefix_end(prefix)):
        yield key[len(prefix) :].decode(), value


def _watched(value: bytes) -> WatchedTable:
    fields: dict[str, Any] = orjson.loads(value)
    return WatchedTable(**(fields | {"columns": tuple(fields["columns"])}))


def _read_begun(value: bytes) -> LoadProgress:
    fields: dict[str, Any] = orjson.loads(value)
    return LoadProgress(**(fields | {"columns": tuple(fields["columns"])}))
