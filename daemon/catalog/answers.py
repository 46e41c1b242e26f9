"""The shared part of all answers from a catalog: the source, the state of the table, and the event id.

Every answer names the event id that it reflects and, if known, the newest one of the source, so that no
client takes an old answer for a new one. It also names the state of each table it is about: ``following``,
``loading`` or ``quarantined``, and in detail one of the states of ``handlers.catalog.following.table_state``.

Timelines and partitions belong to a source, but a query need not name it. If several sources have the table,
the query fails: their answers would differ, and the user could not see which source answered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from daemon.catalog.branch import OpenSource
from daemon.catalog.queries import Answer, TableList
from handlers.catalog.following.table_state import TableState
from state.errors import BadInput, NotFound


def _no_state(table: str) -> TableState | None:  # noqa: ARG001 - a default
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView(ABC):
    """A snapshot of one source, from which a branch answers queries."""

    event_id: int | None
    waiting: Mapping[str, str]
    """Tables that wait for their load."""
    quarantined: Mapping[str, str]
    table_state: Callable[[str], TableState | None] = _no_state
    """Returns the stored state of a table."""
    stale: bool = False
    """Whether the catalog currently cannot follow events, for example because the topic is unreadable."""
    is_surveyed: bool = True
    """Whether the list of the source's tables is complete. Until then, an unknown table may be one of the
    rest.
    """

    @abstractmethod
    def tables(self) -> Collection[str]:
        """Return the tables that queries may name."""

    def listed_tables(self) -> Iterable[str]:
        """Return the tables for a list of tables, in the order of the list."""
        return self.tables()

    @abstractmethod
    def rows(self, source: str, tables: Sequence[str]) -> list[Answer]:
        """Return one row of the list for each of ``tables``."""

    @abstractmethod
    def counts(self) -> Answer:
        """Return further figures about the source, next to its number of tables."""

    def state(self, table: str) -> str:
        """Return ``following`` if answers about the table are current, otherwise ``loading`` or
        ``quarantined``.
        """
        if table in self.quarantined:
            return "quarantined"
        return "loading" if table in self.waiting else "following"

    def describe_state(self, table: str) -> Answer | None:
        """Return the stored state of a table with its reason, event and tries; None if unknown."""
        state = self.table_state(table)
        return None if state is None else state.describe()


K = TypeVar("K", bound=SourceView)
F = TypeVar("F")


class CatalogAnswers(Generic[K]):
    """Answers queries from several sources. Thread-safe."""

    no_source: ClassVar[str]
    """Error for a source that does not have the branch."""
    no_branch: ClassVar[str]
    """Error if no source has it."""
    source_hint: ClassVar[str]
    no_table: ClassVar[str]
    table_hint: ClassVar[str]
    subject: ClassVar[str]
    """Name of a table in the context of errors."""

    def __init__(self, sources: Sequence[OpenSource], newest: Callable[[str], int | None]) -> None:
        self._sources = sources
        self._newest = newest

    def list_tables(self, query: TableList) -> Answer:
        """Return the tables whose names start with the prefix, and the event id that each source reflects."""
        rows: list[Answer] = []
        total = 0
        opened, prefix = self.open_sources(query.source), query.prefix.lower()
        for source, view in opened:
            names = [name for name in view.listed_tables() if name.startswith(prefix)]
            total += len(names)
            rows += view.rows(source, names[: max(0, query.limit - len(rows))])
        sources = {source: self._summary(source, view) for source, view in opened}
        return {"sources": sources, "tables": rows, "total": total}

    def open_sources(self, source: str | None) -> list[tuple[str, K]]:
        """Return the named source, or all, whose state is open.

        Raises NotFound for a source without the branch.
        """
        sources = [each for each in self._sources if source in {None, each.source}]
        if not sources:
            raise NotFound(self.no_source if source else self.no_branch, hint=self.source_hint, source=source)
        views = [(each.source, each.view()) for each in sources]
        return [(name, view) for name, view in views if view is not None]

    def find_table(self, table: str, source: str | None) -> tuple[str, K]:
        """Return the only source that has the table; raise NotFound, and BadInput if several have it."""
        opened = self.open_sources(source)
        candidates = [(name, view) for name, view in opened if table in view.tables()]
        if not candidates:
            waits = any(table in view.waiting for _, view in opened)
            hint = "Its load has not begun yet." if waits else self.table_hint
            raise NotFound(self.no_table, table=table, hint=hint)
        return self.only_source(candidates, table)

    def may_appear(self, name: str, source: str | None) -> bool:
        """Return whether an unknown table may still appear: it waits for its load, or a source is not listed
        or open yet.
        """
        views = [each.view() for each in self._sources if source in {None, each.source}]
        return any(view is None or name in view.waiting or not view.is_surveyed for view in views)

    def only_source(self, candidates: Sequence[tuple[str, F]], name: str) -> tuple[str, F]:
        """Return the candidate if there is only one.

        Raises BadInput about ``name`` if several sources have it.
        """
        if len(candidates) > 1:
            sources = [source for source, _ in candidates]
            context = {self.subject: name, "sources": sources}
            raise BadInput(f"several sources have the {self.subject}", **context, hint="Name the source.")
        return candidates[0]

    def currency(self, source: str, view: K) -> Answer:
        """Return the source of an answer and the event id that the answer reflects."""
        return {
            "source": source,
            "event_id": view.event_id,
            "current_event_id": self._newest(source),
            "stale": view.stale,
        }

    def _summary(self, source: str, view: K) -> Answer:
        return {
            "event_id": view.event_id,
            "current_event_id": self._newest(source),
            "stale": view.stale,
            "tables": len(view.tables()),
            **view.counts(),
            "loading": len(view.waiting),
            "quarantined": sorted(view.quarantined),
        }
