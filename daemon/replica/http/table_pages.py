"""The site's list of a policy's tables, for any number of tables, and the page of one table.

The list looks up only the rows that the page shows, so 100,000 tables cost little more than their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from daemon.consumer.shared.window import SharedEvent
from daemon.replica.external.status import EXTERNAL
from daemon.replica.known_tables import KnownTables
from daemon.replica.status.compactions import COMPACTIONS
from daemon.replica.status.loads import LOADS
from daemon.replica.status.points import POINTS
from daemon.replica.status.unreplicated import UNREPLICATED
from daemon.replica.verification.status import VERIFICATION
from daemon.site.overview import make_cards
from daemon.site.pages import Asked
from daemon.site.recent_events import find_recent
from daemon.status.model import DaemonStatus, ProjectionView, StatusSection
from state.errors import NotFound


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table of a policy."""

    table: str
    state: str
    write_id: int | None
    open_writes: tuple[int, ...]
    verified_s: float | None
    last_s: int | None
    """The source's time of its last event that is in memory."""
    size_bytes: int | None
    """As its load has listed it."""


class PolicyTableList:
    """The tables of one policy: first those with a particular state, then the others by name."""

    def __init__(
        self, status: DaemonStatus, view: ProjectionView, policy: str, known: KnownTables | None
    ) -> None:
        self._view = view
        self._known = known
        point = row_of(POINTS, status, policy)
        self._write_ids: Mapping[str, int] = {} if point is None else point.write_ids
        self._open: Mapping[str, tuple[int, ...]] = {} if point is None else point.open_writes
        self._loads = {_short(load.table): load for load in LOADS.of(status) if load.policy == policy}
        verification = row_of(VERIFICATION, status, policy)
        self._states = {
            **({} if known is None else known.excluded()),
            **{
                _short(each.table): "differs"
                for each in (() if verification is None else verification.tables)
            },
            **{table: load.state for table, load in self._loads.items()},
            **{_short(table): "quarantined" for table in view.quarantined},
        }
        names = sorted(self._write_ids) if known is None else known.names()
        self._unmarked = [name for name in names if name not in self._states]

    def __contains__(self, table: str) -> bool:
        """Whether the daemon knows a table of this name."""
        return table in self._states or table in (self._write_ids if self._known is None else self._known)

    def find(self, words: Sequence[str]) -> Sequence[str]:
        """Return the tables whose name and state together contain all words."""
        found = sorted(
            table
            for table, state in self._states.items()
            if all(word in f"{table} {state}" for word in words)
        )
        unmarked = self._unmarked
        for word in words:
            if word not in self._view.state:
                unmarked = [table for table in unmarked if word in table]
        return [*found, *unmarked]

    def rows(self, tables: Sequence[str], recent: Sequence[SharedEvent]) -> list[TableRow]:
        """Return the rows of the shown tables."""
        prefix = f"{_database(self._view, self._known)}."
        last = {f"{event.event.db}.{event.event.table}": event.event.time_s for event in recent}
        return [self._row(table, last.get(prefix + table)) for table in tables]

    def _row(self, table: str, last_s: int | None) -> TableRow:
        known, load = self._known, self._loads.get(table)
        return TableRow(
            table,
            self._states.get(table, self._view.state),
            self._write_ids.get(table) if known is None else known.write_id(table),
            self._open.get(table, ()) if known is None else known.open_writes(table),
            None if known is None else known.verified_s(table),
            last_s,
            load.size_bytes_listed if load and load.size_bytes_listed else None,
        )


def table_values(
    asked: Asked,
    status: DaemonStatus,
    view: ProjectionView,
    known: KnownTables | None,
    recent: Sequence[SharedEvent],
) -> dict[str, Any]:
    """Return the values of a table's page, from the status and the source's last events; raise NotFound."""
    policy, table = asked.name, asked.table
    tables = PolicyTableList(status, view, policy, known)
    if table not in tables:
        raise NotFound(
            "the policy has no record of the table: it was not written, loaded or verified",
            hint="Open the list of the policy's tables.",
            policy=policy,
            table=table[:200],
        )
    database = _database(view, known)
    name = f"{database}.{table}"
    target = f"{(view.target or '').partition('/')[2]}.{table}"
    external, verification = row_of(EXTERNAL, status, policy), row_of(VERIFICATION, status, policy)
    compactions, unreplicated = row_of(COMPACTIONS, status, policy), row_of(UNREPLICATED, status, policy)
    objects = {f"{view.name} {name}", f"{view.name} {target}"}
    return {
        "now_s": status.time_s,
        "policy": policy,
        "view": view,
        "table": name,
        "row": tables.rows([table], recent)[0],
        "needs": make_cards(
            [each for each in status.needs_operator if each.object in objects], status.projections
        ),
        "failure": next((each for each in view.failures if each.table == name), None),
        "load": next(
            (each for each in LOADS.of(status) if (each.policy, each.table) == (policy, name)), None
        ),
        "loaded": None if known is None else known.loaded(table),
        "differing": _first(() if verification is None else verification.tables, name),
        "problems": [] if external is None else [each for each in external.problems if name in each.tables],
        "compactions": []
        if compactions is None
        else [each for each in compactions.shown if each.table == target],
        "excluded": next(
            (each for each in (() if unreplicated is None else unreplicated.listed) if each.name == name),
            None,
        ),
        "recent": find_recent(recent, table=name),
    }


def row_of(section: StatusSection[tuple[R, ...]], status: DaemonStatus, policy: str) -> R | None:
    """Return the row of a policy in a section whose rows have the policy's name."""
    return next((row for row in section.of(status) if getattr(row, "policy", None) == policy), None)


def _first(rows: Sequence[Any], table: str) -> Any:
    return next((row for row in rows if row.table == table), None)


def _database(view: ProjectionView, known: KnownTables | None) -> str:
    """Return the database at the source; before the state is open, from the tables in the status."""
    if known is not None:
        return known.tables.db
    named = next(iter((*view.quarantined, *(failure.table for failure in view.failures))), "")
    return named.partition(".")[0] or (view.target or "").partition("/")[2]


def _short(table: str) -> str:
    return table.partition(".")[2]
