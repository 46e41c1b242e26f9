"""The tables of a policy whose rows come by a load instead of by events, and how replay treats their events.

A table is loaded when its policy is bootstrapped, when it is released from quarantine, when it enters the
policy, or when a repair replaces it. The load copies the table as of one event of the source. Replay skips
the table's events while it waits or is being loaded. Afterwards replay applies the table's events after that
event, and only those: earlier ones are already in the loaded rows.

Transactions need a second rule, because they may end long after the event. The load waits until every write
id allocated up to its event is committed or aborted, and contains the committed ones. Replay therefore skips
allocations and files of write ids up to ``write_id``, whenever they appear.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from handlers.replication.policy.replicability import Obstacle
from handlers.replication.tables.table_entries import TableEntries


LOADING: Final = "loading"
LOADED: Final = "loaded"
"""Reasons why an event had no effect: its table waits for its load, or the loaded rows contain the event."""

Reason = Literal["bootstrap", "release", "repair", "in-scope", "gap", "files-gone"]


@dataclass(frozen=True, slots=True)
class TableLoad:
    """A table that waits for its load, is loading, or was loaded. The field names are those of the stored
    JSON.
    """

    table: str
    load_id: str
    """Identifies this load on the target, so that a restarted load continues with its own table."""
    reason: Reason
    requested_s: int
    """Unix time of the request."""
    event_id: int = -1
    """Events up to this one are in the loaded rows; -1 until the table is loaded."""
    write_id: int = 0
    """Write ids up to this one are in the loaded rows."""
    snapshot_event_id: int = -1
    """The loaded rows are on the target, as of this event, and replay is catching up; -1 before."""
    snapshot_write_id: int = 0
    caught_up_id: int = -1
    """Events up to this one were applied while catching up, and must not be applied again."""
    tries: int = 0
    """How often the load failed."""
    problem: str | None = None
    """Why it failed the last time."""
    resumes: bool = False
    """Whether the table resumes at its stop after a quarantine, with the rows from before it."""
    cause: str | None = None
    """The reason for a load that no one requested."""

    @property
    def is_loaded(self) -> bool:
        """Whether the rows are on the target, as of the position of replay or later."""
        return self.event_id >= 0

    @property
    def is_catching_up(self) -> bool:
        """Whether the rows are on the target, but as of an earlier event than the position of replay."""
        return not self.is_loaded and self.snapshot_event_id >= 0


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """The result of a load."""

    table: str
    event_id: int
    """The table is as of this event of the source."""
    write_id: int = 0
    """Write ids up to this one are contained; 0 for tables without transactions."""
    files: int = 0
    size_bytes: int = 0
    exists: bool = True
    """False if the source has no such table, or no replicated one, as of ``event_id``; then the target has
    none either."""
    obstacle: Obstacle | None = None
    """Why the source's table is not replicated."""


class LoadWorker(Protocol):
    """Loads the tables that wait."""

    def cancel(self, table: str) -> None:
        """Return once no load works on ``table``, which is about to be removed or renamed."""

    def hurry(self, table: str) -> None:
        """Load ``table`` without the pause after failed tries."""


class TableLoads(TableEntries[TableLoad]):
    """The loads of one policy, by the table name at the source.
    An entry stays after its load, because of ``write_id``.
    """

    prefix = b"load/"
    kind = TableLoad

    def __init__(self) -> None:
        super().__init__()
        self._worker: LoadWorker | None = None

    def subscribe(self, worker: LoadWorker) -> None:
        """Notify ``worker``, which loads the waiting tables, before each change that affects its work."""
        self._worker = worker

    def remove(self, table: str) -> None:
        """Remove the entry of ``table``, and cancel its load first."""
        self._cancel(table)
        super().remove(table)

    def rename(self, old: str, new: str) -> None:
        """Move the entry of ``old``, if any, to the table's new name, and cancel its load first."""
        if old in self:
            self._cancel(new)
        super().rename(old, new)

    def hurry(self, table: str) -> None:
        """Note that a load is requested for a table that already waits, perhaps after failed tries."""
        if self._worker is not None:
            self._worker.hurry(table)

    def _cancel(self, table: str) -> None:
        if self._worker is not None and self.is_waiting(table):
            self._worker.cancel(table)

    def is_waiting(self, table: str | None) -> bool:
        """Whether the table's rows are not on the target yet; replay skips all its events then."""
        entry = self._entries.get(table or "")
        return entry is not None and not entry.is_loaded

    def waiting(self) -> tuple[TableLoad, ...]:
        """Return the tables that are not loaded yet, by name."""
        return tuple(entry for entry in self.entries() if not entry.is_loaded)

    def contains_event(self, table: str, event_id: int) -> bool:
        """Whether the loaded rows contain the effect of this event."""
        entry = self._entries.get(table)
        return entry is not None and event_id <= entry.event_id

    def contains_write(self, table: str, write_id: int) -> bool:
        """Whether the loaded rows contain the writes under this write id."""
        entry = self._entries.get(table)
        return entry is not None and entry.is_loaded and write_id <= entry.write_id

    def request(self, table: str, reason: Reason, *, cause: str | None = None) -> TableLoad:
        """Make ``table`` wait for a new load, which replaces an earlier one."""
        self._cancel(table)
        cause = cause if cause is None else cause[:1000]
        return self.put(TableLoad(table, uuid.uuid4().hex, reason, int(time.time()), cause=cause))

    def finish(self, table: str, event_id: int, write_id: int) -> None:
        """Record that ``table`` is loaded as of ``event_id``, with write ids up to ``write_id``."""
        self.put(replace(self._entries[table], event_id=event_id, write_id=write_id, problem=None))

    def start_catching_up(self, table: str, event_id: int, write_id: int) -> None:
        """Record that the rows of ``table`` are on the target as of ``event_id``,
        which replay has already passed.
        """
        entry = self._entries[table]
        self.put(
            replace(entry, snapshot_event_id=event_id, snapshot_write_id=write_id, caught_up_id=event_id)
        )

    def resume(self, table: str, after: int, loaded_write_id: int) -> TableLoad:
        """Make ``table``, whose rows are on the target as of event ``after``, catch up from there.

        ``loaded_write_id`` is the highest write id that an earlier load of it contains.
        """
        entry = TableLoad(table, uuid.uuid4().hex, "release", int(time.time()), resumes=True)
        return self.put(
            replace(entry, snapshot_event_id=after, snapshot_write_id=loaded_write_id, caught_up_id=after)
        )

    def catch_up_to(self, table: str, event_id: int) -> None:
        """Record that the events of ``table`` up to ``event_id`` are applied."""
        self.put(replace(self._entries[table], caught_up_id=event_id))

    def fail(self, table: str, problem: str) -> None:
        """Record a failed attempt; the table keeps waiting, and is loaded from the beginning."""
        entry = self._entries[table]
        self.put(
            replace(
                entry, snapshot_event_id=-1, caught_up_id=-1, tries=entry.tries + 1, problem=problem[:1000]
            )
        )
