"""Random histories of a source database, with its state after every event: the naive model that replicas are
compared with."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from handlers.events import Event, SourceFile
from handlers.structs.objects import Table
from tests.builders.replication.replay_events import (
    a_table,
    aborted,
    allocated,
    changed,
    committed,
    created,
    dropped,
    written,
)


NAMES = ("a", "b", "c")


@dataclass
class TableState:
    """One table of the source. ``serial`` identifies it over renames."""

    serial: int
    note: int = 0
    """The number that the last alteration wrote into its parameters."""
    write_id: int = 0
    """The highest allocated write id."""
    files: dict[int, str] = field(default_factory=dict)
    """The visible files, by write id."""


@dataclass
class Held:
    """A write id that an open transaction holds, under the name that the table had."""

    serial: int
    name: str
    write_id: int


@dataclass
class RandomHistory:
    """A source database: its log, and its tables after every event."""

    directory: Path
    events: list[Event] = field(default_factory=list)
    tables: dict[str, TableState] = field(default_factory=dict)
    states: list[dict[str, TableState]] = field(default_factory=lambda: [{}])
    """The tables after each event, by event id."""
    open: dict[int, list[Held]] = field(default_factory=dict)
    ended: dict[tuple[int, int], int] = field(default_factory=dict)
    """The event that ended the transaction of a write id, by serial and write id."""
    txns: int = 0
    serials: int = 0

    @property
    def last(self) -> int:
        """The newest event."""
        return len(self.states) - 1

    def do(self, choice: int) -> None:
        """Make one of the changes that are possible now."""
        here, free = sorted(self.tables), [name for name in NAMES if name not in self.tables]
        can = [partial(self.create, name) for name in free[:1]]
        for name in here:
            can += [partial(self.begin, [name]), partial(self.alter, name)]
            can += [partial(self.rename, name, other) for other in free[:1] if self._is_unlocked(name)]
        can += [partial(self.begin, here[:2])] if len(here) > 1 else []
        can += [partial(self.end, txn_id, commits=True) for txn_id in self.open]
        can += [partial(self.end, txn_id, commits=False) for txn_id in list(self.open)[:1]]
        can += [partial(self.drop, name) for name in here if self._is_unlocked(name)]
        can[choice % len(can)]()

    def end_all(self) -> None:
        """Commit the transactions that are still open."""
        for txn_id in list(self.open):
            self.end(txn_id, commits=True)

    def create(self, name: str) -> None:
        self.serials += 1
        self.tables[name] = TableState(self.serials)
        self._log(lambda at: created(at, name, parameters=_parameters(0)))

    def drop(self, name: str) -> None:
        del self.tables[name]
        self._log(lambda at: dropped(at, name))

    def alter(self, name: str) -> None:
        before = self._table(name, name)
        self.tables[name].note = self.last + 1
        self._log(lambda at: changed(at, before, self._table(name, name)))

    def rename(self, name: str, other: str) -> None:
        before = self._table(name, name)
        self.tables[other] = self.tables.pop(name)
        self._log(lambda at: changed(at, before, self._table(other, other)))

    def begin(self, names: list[str]) -> None:
        self.txns += 1
        txn_id = self.txns
        for name in names:
            table = self.tables[name]
            table.write_id += 1
            self.open.setdefault(txn_id, []).append(Held(table.serial, name, table.write_id))
            write_id = table.write_id
            self._log(lambda at, write_id=write_id, name=name: allocated(at, txn_id, write_id, name))  # type: ignore[misc]

    def end(self, txn_id: int, *, commits: bool) -> None:
        held = self.open.pop(txn_id)
        at = self.last + 1
        self.ended.update({(h.serial, h.write_id): at for h in held})
        if not commits:
            self._log(lambda at: aborted(at, txn_id))
            return
        parts = len(held) + 1
        for part, one in enumerate(held):
            self.events.append(
                written(
                    at,
                    self.file(one.serial, one.write_id),
                    txn_id=txn_id,
                    write_id=one.write_id,
                    table=one.name,
                    part=part,
                    parts=parts,
                )
            )
        for table in self.tables.values():
            for one in held:
                if one.serial == table.serial:
                    table.files[one.write_id] = _path(one.serial, one.write_id)
        self._log(lambda at: committed(at, txn_id, part=parts - 1, parts=parts))

    def file(self, serial: int, write_id: int) -> SourceFile:
        """Return the file of a write id, which exists at the source."""
        path = self.directory / "source" / _path(serial, write_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d %d" % (serial, write_id))
        return SourceFile(f"file:{path}", None, None, path.parent.name)

    def find_end(self, name: str, event_id: int) -> int | None:
        """Return when a load of ``name`` as of ``event_id`` can end:
        once no transaction is open that it has to wait for.

        None if the name belongs to another table, or to none, before that: then the load would start again.
        """
        table = self.states[event_id].get(name)
        serial = None if table is None else table.serial
        ids = range(1, (table.write_id if table is not None else 0) + 1)
        end = max([event_id, *(self.ended[serial, i] for i in ids if serial is not None)])
        names = [state.get(name) for state in self.states[event_id : end + 1]]
        same = all((None if found is None else found.serial) == serial for found in names)
        return end if same else None

    def load(self, name: str, event_id: int) -> tuple[TableState | None, list[SourceFile]]:
        """Return the table as of an event, with the files of all its write ids that commit, whenever they
        do."""
        table = self.states[event_id].get(name)
        if table is None:
            return None, []
        end = self.find_end(name, event_id)
        assert end is not None
        files = self.states[end][name].files
        return table, [self.file(table.serial, i) for i in files if i <= table.write_id]

    def table_object(self, name: str, state: TableState) -> Table:
        """Return the object of a table on the target, which chooses its location."""
        return a_table(name, location=None, parameters=_parameters(state.note))

    def _is_unlocked(self, name: str) -> bool:
        """Whether the table can be renamed or dropped: Hive's locks prevent that while a transaction writes
        into it."""
        serial = self.tables[name].serial
        return not any(one.serial == serial for held in self.open.values() for one in held)

    def _log(self, event: Callable[[int], Event]) -> None:
        self.events.append(event(self.last + 1))
        self.states.append(copy.deepcopy(self.tables))

    def _table(self, name: str, held: str) -> Table:
        return a_table(name, parameters=_parameters(self.tables[held].note))


def _parameters(note: int) -> dict[str, str]:
    return {"transactional": "true", "note": str(note)}


def _path(serial: int, write_id: int) -> str:
    return f"{serial}/delta_{write_id:07d}_{write_id:07d}_0000/bucket_{serial}"
