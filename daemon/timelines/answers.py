"""Answers about timelines as plain values: what HTTP serves and what the command line prints, from memory or from a state file.

Every answer tells the event id that it reflects and, where known, the source's newest one, so that nobody takes an old answer
for a new one, and the state of each table it is about: ``following``, ``loading`` or ``quarantined``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from daemon.catalog.answers import only_one, state_of, views_of
from daemon.timelines.values import cover_of, summary_of, timeline_of
from state.errors import BadInput, LimitExceeded, NotFound
from state.timelines.periods import UpdatePeriod
from state.timelines.sql_conditions import Column, format_between, format_in, format_or
from state.timelines.tables.facts import Fact
from state.timelines.tables.projection import Timelines, count_runs
from state.timelines.time_ranges import TimeRange


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from state.timelines.cover import Cover


TABLES_MAX: Final = 1_000
CONDITION_PARTITIONS_MAX: Final = 100_000
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Known:
    """What a catalog knows at one moment."""

    timelines: Timelines
    event_id: int | None
    waiting: Mapping[str, str] = field(default_factory=dict)
    confined: Mapping[str, str] = field(default_factory=dict)

    def state(self, table: str) -> str:
        """Tell whether a table's timelines can be believed."""
        return state_of(table, self.confined, self.waiting)


@dataclass(frozen=True, slots=True)
class TimelineView:
    """One source's timelines; ``known`` gives None until its state is open."""

    source: str
    facts: Mapping[str, Fact]
    known: Callable[[], Known | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverQuestion:
    """What is asked of a cover; ``name`` is a fact or a table."""

    name: str
    start: str
    end: str
    source: str | None = None
    column: str | None = None
    periods: tuple[str, ...] = ()
    strict: bool = False
    min_count: bool = False
    where: str | None = None
    """``or``, ``in`` or ``between`` for the condition as SQL text."""
    alias: str = ""


class TimelineAnswers:
    """Answers from several sources; safe for any thread, since what is shown is only ever replaced whole."""

    def __init__(self, views: Sequence[TimelineView], newest: Callable[[str], int | None]) -> None:
        self._views = views
        self._newest = newest

    def listing(self, *, source: str | None = None, prefix: str = "", limit: int = TABLES_MAX) -> Answer:
        """Return every table whose name starts with ``prefix``, and how far each source is."""
        rows: list[Answer] = []
        total = 0
        for view, known in self._open(source):
            names = [name for name in known.timelines.tables() if name.startswith(prefix)]
            total += len(names)
            rows += [self._row(view, known, name) for name in names[: max(0, limit - len(rows))]]
        return {"sources": self._sources(source), "tables": rows, "total": total}

    def show(self, table: str, *, source: str | None = None) -> Answer:
        """Return a table's timelines with their runs; raise NotFound."""
        view, known = self._holding(table, source)
        timelines = [timeline_of(timeline) for timeline in known.timelines.timelines(table)]
        settings = known.timelines.settings(table)
        return {
            **self._about(view, known, [table]),
            "table": table,
            "columns": list(settings.time_columns),
            "timelines": timelines,
        }

    def latest(self, name: str, *, source: str | None = None, column: str | None = None) -> Answer:
        """Return the latest partition of a table or fact per time column; raise NotFound."""
        view, known, fact = self._fact(name, source)
        columns = [column] if column else _columns(known.timelines, fact)
        found = {each: fact.latest(known.timelines, each) for each in columns}
        latest = {
            each: None if part is None else {"period": part.period.lens_name, "value": str(part)}
            for each, part in found.items()
        }
        return {**self._about(view, known, _tables(fact)), "name": name, "latest": latest}

    def cover(self, asked: CoverQuestion) -> Answer:
        """Return which runs cover a range; raise NotFound, BadInput, Uncoverable (strict), LimitExceeded."""
        view, known, fact = self._fact(asked.name, asked.source)
        column = asked.column or _only_column(known.timelines, fact)
        span = TimeRange.parse(asked.start, asked.end)
        periods = [UpdatePeriod.from_lens_name(name) for name in asked.periods] or None
        found = fact.cover(
            known.timelines, column, span, periods, strict=asked.strict, min_count=asked.min_count
        )
        answer = {
            **self._about(view, known, _tables(fact)),
            "name": asked.name,
            "column": column,
            **cover_of(found),
        }
        if asked.where is not None:
            answer["where"] = _conditions(known.timelines, column, found, asked)
        return answer

    def _sources(self, source: str | None) -> dict[str, Answer]:
        return {
            view.source: {
                "event_id": known.event_id,
                "current_event_id": self._newest(view.source),
                "tables": len(known.timelines.tables()),
                "runs": count_runs(known.timelines),
                "loading": len(known.waiting),
                "quarantined": sorted(known.confined),
                "facts": sorted(view.facts),
            }
            for view, known in self._open(source)
        }

    def _row(self, view: TimelineView, known: Known, name: str) -> Answer:
        return {
            "source": view.source,
            "table": name,
            "state": known.state(name),
            "timelines": [summary_of(timeline) for timeline in known.timelines.timelines(name)],
        }

    def _about(self, view: TimelineView, known: Known, tables: Sequence[str]) -> Answer:
        states = {table: known.state(table) for table in tables}
        return {
            "source": view.source,
            "event_id": known.event_id,
            "current_event_id": self._newest(view.source),
            "states": states,
            "problems": {table: known.confined[table] for table in tables if table in known.confined},
        }

    def _open(self, source: str | None) -> list[tuple[TimelineView, Known]]:
        """Return what is open; raise NotFound for a source without a catalog."""
        views = views_of(
            self._views,
            source,
            missing="no catalog follows the source",
            nothing="no catalog is configured",
            hint="Add the source to 'catalog' in the configuration.",
        )
        known = [(view, view.known()) for view in views]
        return [(view, found) for view, found in known if found is not None]

    def _holding(self, table: str, source: str | None) -> tuple[TimelineView, Known]:
        found = [(view, known) for view, known in self._open(source) if table in known.timelines.tables()]
        if not found:
            waits = any(table in known.waiting for _, known in self._open(source))
            hint = "It waits to be loaded." if waits else "See 'tideline timeline show' for those that are."
            raise NotFound("the table has no timelines", table=table, hint=hint)
        return only_one(found, name=table)

    def _fact(self, name: str, source: str | None) -> tuple[TimelineView, Known, Fact]:
        facts = [(view, known) for view, known in self._open(source) if name in view.facts]
        if facts:
            view, known = only_one(facts, name=name)
            return view, known, view.facts[name]
        view, known = self._holding(name, source)
        return view, known, Fact.of_table(name)


def _tables(fact: Fact) -> list[str]:
    return [table.table for table in fact.tables]


def _columns(timelines: Timelines, fact: Fact) -> list[str]:
    """Return the time columns of the fact's tables, in lower case, each once."""
    followed = set(timelines.tables())
    names = [
        column.lower()
        for table in _tables(fact)
        if table in followed
        for column in timelines.settings(table).time_columns
    ]
    return list(dict.fromkeys(names))


def _only_column(timelines: Timelines, fact: Fact) -> str:
    columns = _columns(timelines, fact)
    if not columns:
        raise NotFound("no table of the fact has timelines", fact=fact.name)
    if len(columns) > 1:
        raise BadInput("there are several time columns", columns=columns, hint="Name the column.")
    return columns[0]


def _conditions(timelines: Timelines, column: str, found: Cover, asked: CoverQuestion) -> dict[str, str]:
    """Return the condition per table that the cover takes partitions from."""
    if found.partition_count() > CONDITION_PARTITIONS_MAX and asked.where != "between":
        raise LimitExceeded(
            "too many partitions for one condition", limit=CONDITION_PARTITIONS_MAX, hint="Use BETWEEN."
        )
    spelled = Column(column, asked.alias)
    texts = {}
    for table in found.tables():
        runs = [run for run in found.runs() if run.table == table]
        match asked.where:
            case "or":
                texts[table] = format_or(spelled, runs)
            case "in":
                texts[table] = format_in(spelled, runs)
            case "between":
                held = [period for period, held in timelines.storage(table, column).runs.items() if held]
                texts[table] = format_between(spelled, runs, held)
            case _:
                raise BadInput("no such writer", where=asked.where, hint="or, in or between is wanted.")
    return texts
