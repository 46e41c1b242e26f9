"""The states of all tables of one source, in memory and in the store (``table_state`` defines a state).

There is one value for each table, so a rename carries everything along, and one removal removes everything
about a table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import orjson
import structlog

from handlers.catalog.following.table_state import (
    FROM_PARTITIONS,
    FollowedTable,
    LoadProgress,
    PostponedLoad,
    RequestedLoad,
    TableState,
    parse_followed,
    parse_progress,
    parse_state,
)
from handlers.failures import TableFailure
from state.errors import StateCorrupt, TidelineError
from state.store import Reader, Transaction, prefix_end


log = structlog.get_logger(__name__)
STATES: Final = b"ct/s/"
_NONE: Final = TableState()
_TABLES: Final = b"ct/t/"
_LOADS: Final = b"ct/l/"
_PROGRESS: Final = b"ct/b/"
_POSTPONED: Final = b"ct/p/"
"""Place of the states in version 1 of the state file: four keys for each table."""


class TableStates:
    """The tables of one source. Use it from one thread only, except for the methods described as
    thread-safe.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """``clock`` returns the Unix time."""
        self._clock = clock
        self._states: dict[str, TableState] = {}
        self._queue: dict[str, str] = {}
        """The tables to load with the reasons, in the order of their next turns."""
        self._quarantined: Mapping[str, str] = {}
        """Table to reason; replaced as a whole, because other threads read it."""

    def open(self, reader: Reader) -> None:
        """Read the stored states; raise StateCorrupt if one is unreadable."""
        stored = reader.scan(STATES, prefix_end(STATES))
        self._states = {key[len(STATES) :].decode(): _with_retry(parse_state(value)) for key, value in stored}
        self._queue = {name: state.load.reason for name, state in self._states.items() if state.load}
        self._quarantined = {name: reason for name in self._states if (reason := self._problem(name))}

    def state(self, name: str) -> TableState | None:
        """Return the state of a table; None for an unknown one. Thread-safe."""
        return self._states.get(name)

    def get(self, name: str) -> FollowedTable | None:
        """Return a followed or quarantined table; None for any other, even one that waits for its load."""
        return self._states.get(name, _NONE).known

    def put(self, txn: Transaction, name: str, known: FollowedTable) -> None:
        """Store the state of a table."""
        self._save(txn, name, replace(self._states.get(name, _NONE), known=known))

    def forget(self, txn: Transaction, name: str) -> None:
        """Stop following a table, and do not load it; an unknown table is not an error."""
        self._save(txn, name, _NONE)

    def quarantine(
        self, txn: Transaction, name: str, error: TidelineError, event_id: int = 0, took_s: float = 0.0
    ) -> None:
        """Quarantine a table at an event (0: while it is loaded, for ``took_s``); the first reason is kept.

        It is loaded again after growing pauses, so it recovers when the cause is gone.
        """
        state, now_s = self._states.get(name, _NONE), self._clock()
        known = state.known or FollowedTable((), 0)
        if known.code is None:
            known = replace(
                known, code=error.code, reason=str(error), failed_at=event_id, failed_s=int(now_s)
            )
        tries = 1 if state.postponed is None else state.postponed.tries + 1
        retry = PostponedLoad(tries, 0, error.code, str(error)).after(took_s, now_s)
        load = RequestedLoad("unsure", event_id)
        self._save(txn, name, replace(state, known=known, load=load, progress=None, postponed=retry))
        self.rotate(name)

    def request_load(self, txn: Transaction, name: str, reason: str, event_id: int = 0) -> None:
        """Request a load of a table from its beginning, because of an event; the catalog ignores the table's
        events until then.

        Doubt about a table is kept: a reason to read its partitions is only replaced by another one. A load
        that an operator requested is not postponed any more.
        """
        state = self._states.get(name, _NONE)
        load = state.load
        if load is None or reason in FROM_PARTITIONS or load.reason not in FROM_PARTITIONS:
            load = RequestedLoad(reason, event_id)
        postponed = None if reason == "asked" else state.postponed
        self._save(txn, name, replace(state, load=load, progress=None, postponed=postponed))

    def postpone_load(
        self, txn: Transaction, name: str, error: TidelineError, took_s: float, now_s: float
    ) -> PostponedLoad:
        """Record that loading a waiting table failed after ``took_s`` at ``now_s`` (Unix time); return the
        time of the next try.
        """
        state = self._states.get(name, _NONE)
        tries = 1 if state.postponed is None else state.postponed.tries + 1
        failed = PostponedLoad(tries, 0, error.code, str(error)).after(took_s, now_s)
        self._save(txn, name, replace(state, postponed=failed))
        self.rotate(name)
        return failed

    def keep_postponed(self, txn: Transaction, name: str, before: PostponedLoad | None) -> None:
        """Carry the failures of a table's load to its new name."""
        state = self._states.get(name, _NONE)
        if before is not None and state.load is not None:
            self._save(txn, name, replace(state, postponed=before))

    def rotate(self, name: str) -> None:
        """Put a waiting table at the end of the queue."""
        if name in self._queue:
            self._queue[name] = self._queue.pop(name)

    def hurry(self, name: str) -> None:
        """Put a waiting table at the front of the queue."""
        if name in self._queue and next(iter(self._queue)) != name:
            self._queue = {name: self._queue.pop(name), **self._queue}

    def save_progress(self, txn: Transaction, name: str, progress: LoadProgress) -> None:
        """Store the progress of a waiting table's load."""
        self._save(txn, name, replace(self._states.get(name, _NONE), progress=progress))

    def progress(self, name: str) -> LoadProgress | None:
        """Return the progress of a table's load; None if loading has not begun. Thread-safe."""
        return self._states.get(name, _NONE).progress

    def finish_load(self, txn: Transaction, name: str) -> None:
        """Record that a table no longer needs a load."""
        state = self._states.get(name, _NONE)
        self._save(txn, name, replace(state, load=None, progress=None, postponed=None))

    def is_waiting(self, name: str) -> bool:
        """Whether a table waits for its load."""
        return name in self._queue

    def next_load(
        self, now_s: float, *, failed: bool = True, is_ready: Callable[[str], bool] = lambda _: True
    ) -> tuple[str, str] | None:
        """Return (table, reason) of a waiting table that is ready and due at ``now_s``, or None; with
        ``failed``, also consider tables whose load failed before.
        """
        for name, reason in self._queue.items():
            postponed = self._states[name].postponed
            if (postponed is None or (failed and postponed.is_due(now_s))) and is_ready(name):
                return name, reason
        return None

    def postponed(self) -> Mapping[str, PostponedLoad]:
        """Return the waiting tables whose load failed, as a copy; thread-safe."""
        return {
            name: state.postponed for name, state in self._waiting_states() if state.postponed is not None
        }

    def under_load(self) -> Mapping[str, LoadProgress]:
        """Return the progress of every table loaded in pieces, as a copy; thread-safe."""
        return {name: state.progress for name, state in self._waiting_states() if state.progress is not None}

    def waiting(self) -> Mapping[str, str]:
        """Return a view of the waiting tables with the reason;
        other threads may look up and count, but not iterate.
        """
        return MappingProxyType(self._queue)

    def quarantined(self) -> Mapping[str, str]:
        """Return the quarantined tables with the reason; thread-safe."""
        return self._quarantined

    def is_quarantined(self, name: str) -> bool:
        """Whether a table is in quarantine; thread-safe."""
        return name in self._quarantined

    def failures(self) -> list[TableFailure]:
        """Return the reason for each quarantined table, by name; thread-safe."""
        tables = ((name, self.get(name)) for name in sorted(self._quarantined))
        return [
            TableFailure(
                name, table.failed_at or None, table.failed_s or None, table.code, table.reason or ""
            )
            for name, table in tables
            if table is not None and table.code is not None
        ]

    def tables_of_db(self, db: str) -> list[str]:
        """Return every known or waiting table of a database."""
        return sorted(name for name in self._states if name.startswith(f"{db}."))

    def list_followed(self) -> list[str]:
        """Return the name of every followed or quarantined table, sorted."""
        return sorted(name for name, state in self._states.items() if state.known is not None)

    def _waiting_states(self) -> list[tuple[str, TableState]]:
        # One call in C copies the names: other threads may read while this one changes them.
        return [(name, self._states.get(name, _NONE)) for name in tuple(self._queue)]

    def _save(self, txn: Transaction, name: str, state: TableState) -> None:
        """Set and store a table's state; remove an empty one."""
        if state == self._states.get(name, _NONE):
            return
        if state.is_empty:
            self._states.pop(name, None)
            txn.delete(STATES + name.encode())
        else:
            self._states[name] = state
            txn.put(STATES + name.encode(), state.to_bytes())
        if state.load is None:
            self._queue.pop(name, None)
        else:
            self._queue[name] = state.load.reason
        self._note_quarantine(name)

    def _note_quarantine(self, name: str) -> None:
        """Keep the quarantined tables in their own map: there are few, and every answer needs them."""
        problem = self._problem(name)
        if name in self._quarantined or problem is not None:
            others = {other: reason for other, reason in self._quarantined.items() if other != name}
            self._quarantined = others if problem is None else {**others, name: problem}

    def _problem(self, name: str) -> str | None:
        table = self.get(name)
        return None if table is None or table.code is None else table.reason or table.code


def _with_retry(state: TableState) -> TableState:
    """Return a stored state with the load of a quarantined table, which former releases did not request."""
    is_quarantined = state.known is not None and state.known.code is not None
    return replace(state, load=RequestedLoad("unsure")) if is_quarantined and state.load is None else state


def migrate_table_states(txn: Transaction) -> None:
    """Convert version 1 of a catalog's state to version 2; raise StateCorrupt if it is unreadable."""
    tables, loads = _take(txn, _TABLES), _take(txn, _LOADS)
    progress, postponed = _take(txn, _PROGRESS), _take(txn, _POSTPONED)
    try:
        for name in tables.keys() | loads.keys():
            state = TableState(
                known=parse_followed(orjson.loads(tables[name])) if name in tables else None,
                load=RequestedLoad(loads[name].decode()) if name in loads else None,
                progress=parse_progress(orjson.loads(progress[name])) if name in progress else None,
                postponed=PostponedLoad(**orjson.loads(postponed[name])) if name in postponed else None,
            )
            txn.put(STATES + name.encode(), state.to_bytes())
    except (TypeError, KeyError, orjson.JSONDecodeError) as error:
        raise StateCorrupt("the state of a table cannot be read", reason=str(error)) from error
    log.info("state of the catalog migrated", tables=len(tables), waiting=len(loads), version=2)


def _take(txn: Transaction, prefix: bytes) -> Mapping[str, bytes]:
    """Return and delete the entries whose keys start with ``prefix``."""
    entries = {key[len(prefix) :].decode(): value for key, value in txn.scan(prefix, prefix_end(prefix))}
    txn.delete_range(prefix, prefix_end(prefix))
    return entries
