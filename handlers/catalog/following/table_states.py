"""The state of each table that the catalog follows: followed, waiting to be loaded, loading in pieces, or quarantined.

A table's ``as_of`` is the newest event id before its listing began. Events up to it are contained in the listing and must not be
applied again (a drop would undo a later add). Later events may be contained in it and are applied, which is harmless because every
change is idempotent. So tables can be loaded one by one, at any time, while events arrive. Only a rename during the listing needs
more: no later event reports what the listing missed. Hence ``until``.

A table that is loaded in pieces has a load progress. Its ``as_of`` is that of the first piece; later events reach the staged content
between pieces. The next piece is stored, so loading continues there after a restart.

A load that the metastore failed to serve is postponed. Its number of tries and the time of the next one are stored, so that a table
whose load fails every time does not hold up the others, before and after a restart.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import orjson

from state.errors import StateCorrupt, TidelineError
from state.store import Reader, Transaction, prefix_end
from state.table_failure import TableFailure


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_TABLES: Final = b"ct/t/"
_LOADS: Final = b"ct/l/"
_PROGRESS: Final = b"ct/b/"
_POSTPONED: Final = b"ct/p/"
FROM_PARTITIONS: Final = frozenset({"unsure", "asked"})
"""Reasons for which a table's own properties are not trusted."""
PAUSE_MIN_S: Final = 5
PAUSE_MAX_S: Final = 3600
PAUSE_SHARE: Final = 10
"""A postponed load waits at least this many times as long as its last try took."""


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table that is followed or quarantined. The field names are stored."""

    columns: tuple[str, ...]
    as_of: int
    until: int = 0
    """The newest event id after its listing ended: a rename up to this id may have truncated the listing."""
    code: str | None = None
    """Code of the error that quarantined it; None while it is followed."""
    reason: str | None = None
    published: str | None = None
    """The event id that Tideline last wrote into the table's properties."""
    failed_at: int = 0
    """The event that quarantined it; 0 if it failed while it was loaded."""
    failed_s: int = 0
    """Unix time at which it was quarantined."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The progress of a table that is loaded in pieces. The field names are stored."""

    as_of: int
    columns: tuple[str, ...]
    last: str = ""
    """Name of the last partition of the last piece; pieces follow the order of names as text."""
    done: int = 0
    total: int = 0
    """How many partitions were listed; ``done`` counts those staged."""


@dataclass(frozen=True, slots=True)
class PostponedLoad:
    """A load that failed for a reason that may pass. The field names are stored."""

    tries: int
    next_s: int
    """Unix time of the next try."""
    code: str
    reason: str

    def after(self, took_s: float, now_s: float) -> PostponedLoad:
        """Return this failure with the time of the next try: pauses double, and grow with the duration of the failed try."""
        doubled_s = PAUSE_MIN_S * 2 ** min(self.tries - 1, 20)
        pause_s = min(PAUSE_MAX_S, max(doubled_s, int(PAUSE_SHARE * took_s)))
        return replace(self, next_s=int(now_s) + pause_s)

    def is_due(self, now_s: float) -> bool:
        """Whether it is time for the next try; also if the clock was set back by more than the longest pause."""
        return not now_s < self.next_s <= now_s + PAUSE_MAX_S


class TableStates:
    """The tables of one source, in memory and in the store; for one thread, except where "other threads" is stated."""

    def __init__(self) -> None:
        self._tables: dict[str, KnownTable] = {}
        self._loads: dict[str, str] = {}
        self._progress: dict[str, LoadProgress] = {}
        self._postponed: dict[str, PostponedLoad] = {}
        self._quarantined: Mapping[str, str] = {}
        """Table to reason; replaced as a whole, because other threads read it."""

    def open(self, reader: Reader) -> None:
        """Read the stored states; raise StateCorrupt where one cannot be read."""
        try:
            self._tables = {name: _parse_table(value) for name, value in _entries(reader, _TABLES)}
            self._progress = {name: _parse_progress(value) for name, value in _entries(reader, _PROGRESS)}
            self._postponed = {
                name: PostponedLoad(**orjson.loads(value)) for name, value in _entries(reader, _POSTPONED)
            }
        except (TypeError, KeyError, orjson.JSONDecodeError) as error:
            raise StateCorrupt("the state of a table cannot be read", reason=str(error)) from error
        self._loads = {name: value.decode() for name, value in _entries(reader, _LOADS)}
        self._quarantined = {n: w.reason or "" for n, w in self._tables.items() if w.code is not None}

    def get(self, name: str) -> KnownTable | None:
        """Return a followed or quarantined table; None for any other, which may be waiting to be loaded."""
        return self._tables.get(name)

    def put(self, txn: Transaction, name: str, known: KnownTable) -> None:
        """Store a table's state."""
        self._tables[name] = known
        self._note_quarantine(name, known)
        txn.put(_TABLES + name.encode(), orjson.dumps(asdict(known)))

    def forget(self, txn: Transaction, name: str) -> None:
        """Stop following a table, and do not load it; an unknown one is not an error."""
        if self._tables.pop(name, None) is not None:
            txn.delete(_TABLES + name.encode())
            self._note_quarantine(name, None)
        self.finish_load(txn, name)

    def quarantine(self, txn: Transaction, name: str, error: TidelineError, event_id: int = 0) -> None:
        """Quarantine a table at an event (0: while it is loaded); the first reason is kept."""
        known = self._tables.get(name) or KnownTable((), 0)
        if known.code is None:
            self.put(
                txn,
                name,
                replace(
                    known,
                    code=error.code,
                    reason=str(error),
                    failed_at=event_id,
                    failed_s=int(time.time()),
                ),
            )

    def request_load(self, txn: Transaction, name: str, reason: str) -> None:
        """Have a table loaded from the source, from its beginning; events are ignored until then.

        Doubt about a table is kept: a reason to read its partitions is only replaced by another one. A load that an operator asked
        for is not postponed any more.
        """
        self._discard_progress(txn, name)
        if reason == "asked":
            self._discard_postponed(txn, name)
        if self._loads.get(name) in FROM_PARTITIONS and reason not in FROM_PARTITIONS:
            return
        self._loads[name] = reason
        txn.put(_LOADS + name.encode(), reason.encode())

    def postpone_load(
        self, txn: Transaction, name: str, error: TidelineError, took_s: float, now_s: float
    ) -> PostponedLoad:
        """Record that loading a waiting table failed after ``took_s`` at ``now_s`` (Unix time); return when it is tried again."""
        before = self._postponed.get(name)
        tries = 1 if before is None else before.tries + 1
        failed = PostponedLoad(tries, 0, error.code, str(error)).after(took_s, now_s)
        self._postponed[name] = failed
        self._loads[name] = self._loads.pop(name)  # behind those that have not failed
        txn.put(_POSTPONED + name.encode(), orjson.dumps(asdict(failed)))
        return failed

    def save_progress(self, txn: Transaction, name: str, progress: LoadProgress) -> None:
        """Store how far a waiting table is loaded."""
        self._progress[name] = progress
        txn.put(_PROGRESS + name.encode(), orjson.dumps(asdict(progress)))

    def progress(self, name: str) -> LoadProgress | None:
        """Return how far a table is loaded; None where loading has not begun. Other threads may call this."""
        return self._progress.get(name)

    def finish_load(self, txn: Transaction, name: str) -> None:
        """Record that a table does not need loading any more."""
        self._discard_progress(txn, name)
        self._discard_postponed(txn, name)
        if self._loads.pop(name, None) is not None:
            txn.delete(_LOADS + name.encode())

    def is_waiting(self, name: str) -> bool:
        """Whether a table waits to be loaded."""
        return name in self._loads

    def next_load(self, now_s: float, *, failed: bool = True) -> tuple[str, str] | None:
        """Return (table, reason) of one that waits and is due at ``now_s``, or None; with ``failed`` also one that failed before."""
        return next(
            (
                (name, reason)
                for name, reason in self._loads.items()
                if name not in self._postponed or (failed and self._postponed[name].is_due(now_s))
            ),
            None,
        )

    def postponed(self) -> Mapping[str, PostponedLoad]:
        """Return the waiting tables whose load failed: a copy, for other threads too."""
        return dict(self._postponed)

    def under_load(self) -> Mapping[str, LoadProgress]:
        """Return the progress of every table loaded in pieces: a copy, for other threads too."""
        return dict(self._progress)

    def waiting(self) -> Mapping[str, str]:
        """Return a view of the waiting tables with the reason; other threads may look up and count, but not iterate."""
        return MappingProxyType(self._loads)

    def quarantined(self) -> Mapping[str, str]:
        """Return the quarantined tables with the reason; for other threads too."""
        return self._quarantined

    def failures(self) -> list[TableFailure]:
        """Return why each quarantined table is quarantined, by name; for other threads too."""
        found = ((name, self._tables.get(name)) for name in sorted(self._quarantined))
        return [
            TableFailure(
                name, known.failed_at or None, known.failed_s or None, known.code, known.reason or ""
            )
            for name, known in found
            if known is not None and known.code is not None
        ]

    def tables_of_db(self, db: str) -> list[str]:
        """Return every table of a database that is known or waiting."""
        return sorted(name for name in {*self._tables, *self._loads} if name.startswith(f"{db}."))

    def known(self) -> list[str]:
        """Return the name of every followed or quarantined table, sorted."""
        return sorted(self._tables)

    def _discard_progress(self, txn: Transaction, name: str) -> None:
        if self._progress.pop(name, None) is not None:
            txn.delete(_PROGRESS + name.encode())

    def _discard_postponed(self, txn: Transaction, name: str) -> None:
        if self._postponed.pop(name, None) is not None:
            txn.delete(_POSTPONED + name.encode())

    def _note_quarantine(self, name: str, known: KnownTable | None) -> None:
        """Keep the quarantined tables in a map of their own: there are few, and every answer needs them."""
        if name not in self._quarantined and (known is None or known.code is None):
            return
        others = {n: reason for n, reason in self._quarantined.items() if n != name}
        if known is not None and known.code is not None:
            self._quarantined = {**others, name: known.reason or ""}
        else:
            self._quarantined = others


def _entries(reader: Reader, prefix: bytes) -> Iterator[tuple[str, bytes]]:
    for key, value in reader.scan(prefix, prefix_end(prefix)):
        yield key[len(prefix) :].decode(), value


def _parse_table(value: bytes) -> KnownTable:
    fields: dict[str, Any] = orjson.loads(value)
    return KnownTable(**(fields | {"columns": tuple(fields["columns"])}))


def _parse_progress(value: bytes) -> LoadProgress:
    fields: dict[str, Any] = orjson.loads(value)
    return LoadProgress(**(fields | {"columns": tuple(fields["columns"])}))
