"""Answers about timelines as plain values, for HTTP and for the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from daemon.catalog.answers import CatalogAnswers, SourceView
from daemon.catalog.queries import Answer
from daemon.timelines.queries import CoverRange, FindLatest, ListTables, ShowTable, TimelineQuery
from daemon.timelines.values import cover_of, ignored_of, summary_of, timeline_of
from state.errors import BadInput, LimitExceeded, NotFound
from state.timelines.cover import Cover
from state.timelines.periods import UpdatePeriod
from state.timelines.sql_conditions import Column, format_between, format_in, format_or, refuse_shared_texts
from state.timelines.tables.facts import Fact
from state.timelines.tables.projection import Timelines, count_runs
from state.timelines.time_ranges import TimeRange


CONDITION_PARTITIONS_MAX: Final = 100_000
CONDITION_RUNS_MAX: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinesView(SourceView):
    """A snapshot of one source's timelines."""

    timelines: Timelines
    facts: Mapping[str, Fact] = field(default_factory=dict)

    def tables(self) -> Collection[str]:
        """Return the tables that have timelines."""
        return self.timelines.followed()

    def listed_tables(self) -> Sequence[str]:
        """Return the tables that have timelines, sorted by name."""
        return self.timelines.tables()

    def rows(self, source: str, tables: Sequence[str]) -> list[Answer]:
        """Return each table with a summary of its timelines."""
        return [
            {
                "source": source,
                "table": table,
                "state": self.state(table),
                "timelines": [summary_of(timeline) for timeline in self.timelines.timelines(table)],
            }
            for table in tables
        ]

    def counts(self) -> Answer:
        """Return the number of runs, and the names of the facts."""
        return {"runs": count_runs(self.timelines), "facts": sorted(self.facts)}


class TimelineAnswers(CatalogAnswers[TimelinesView]):
    """Answers queries from several sources. Thread-safe, because published timelines are only replaced as a
    whole.
    """

    no_source = "no catalog follows the source"
    no_branch = "no catalog is configured"
    source_hint = "Add the source to 'catalog' in the configuration."
    no_table = "the table has no timelines"
    table_hint = "Run 'tideline timeline show' to list the tables with timelines."
    subject = "name"

    def answer(self, query: TimelineQuery) -> Answer:
        """Return the answer; raise NotFound, BadInput, Uncoverable (a strict cover), LimitExceeded."""
        match query:
            case ListTables():
                return self.list_tables(query)
            case ShowTable():
                return self._show(query)
            case FindLatest():
                return self._find_latest(query)
            case CoverRange():
                return self.find_cover(query)[0]

    def _show(self, query: ShowTable) -> Answer:
        source, view = self.find_table(query.name, query.source)
        timelines = [timeline_of(timeline) for timeline in view.timelines.timelines(query.name)]
        return {
            **self._about(source, view, [query.name]),
            "table": query.name,
            "columns": list(view.timelines.settings(query.name).time_columns),
            "timelines": timelines,
            "ignored": [
                ignored_of(column, view.timelines.ignored(query.name, column))
                for column in view.timelines.settings(query.name).time_columns
            ],
        }

    def _find_latest(self, query: FindLatest) -> Answer:
        source, view, fact = self._find_fact(query.name, query.source)
        columns = [query.column] if query.column else _columns(view.timelines, fact)
        partitions = {column: fact.latest(view.timelines, column) for column in columns}
        latest = {
            column: None if part is None else {"period": part.period.lens_name, "value": str(part)}
            for column, part in partitions.items()
        }
        return {**self._about(source, view, _tables(fact)), "name": query.name, "latest": latest}

    def find_cover(self, query: CoverRange) -> tuple[Answer, Cover]:
        """Return the answer and the cover that it describes; raise the errors of ``answer``."""
        source, view, fact = self._find_fact(query.name, query.source)
        column = query.column or _only_column(view.timelines, fact)
        span = TimeRange.parse(query.start, query.end)
        periods = [UpdatePeriod.from_lens_name(name) for name in query.periods.split(",") if name] or None
        cover = fact.cover(
            view.timelines, column, span, periods, strict=query.strict, min_count=query.min_count
        )
        answer = {
            **self._about(source, view, _tables(fact)),
            "name": query.name,
            "column": column,
            **cover_of(cover),
        }
        if query.where is not None:
            answer["where"] = _conditions(view.timelines, column, cover, query)
        return answer, cover

    def _about(self, source: str, view: TimelinesView, tables: Sequence[str]) -> Answer:
        return {
            **self.currency(source, view),
            "states": {table: view.state(table) for table in tables},
            "problems": {table: view.quarantined[table] for table in tables if table in view.quarantined},
            "table_states": {table: view.describe_state(table) for table in tables},
        }

    def _find_fact(self, name: str, source: str | None) -> tuple[str, TimelinesView, Fact]:
        facts = [found for found in self.open_sources(source) if name in found[1].facts]
        if facts:
            found, view = self.only_source(facts, name)
            return found, view, view.facts[name]
        found, view = self.find_table(name, source)
        return found, view, Fact.of_table(name)


def _tables(fact: Fact) -> list[str]:
    return [table.table for table in fact.tables]


def _columns(timelines: Timelines, fact: Fact) -> list[str]:
    """Return the distinct time columns of the fact's tables, in lower case."""
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


def _conditions(timelines: Timelines, column: str, cover: Cover, query: CoverRange) -> dict[str, str]:
    """Return a condition for each table from which the cover takes partitions."""
    if cover.partition_count() > CONDITION_PARTITIONS_MAX and query.where != "between":
        raise LimitExceeded(
            "too many partitions for one condition", limit=CONDITION_PARTITIONS_MAX, hint="Use BETWEEN."
        )
    if cover.run_count() > CONDITION_RUNS_MAX:
        raise LimitExceeded(
            "too many runs for one condition", limit=CONDITION_RUNS_MAX, hint="Query a shorter range."
        )
    written = Column(column, query.alias)
    texts = {}
    for table in cover.tables():
        runs = [run for run in cover.runs() if run.table == table]
        held, ignored = timelines.storage(table, column).runs, timelines.ignored(table, column)
        if query.where != "between":
            refuse_shared_texts(runs, held, ignored)
        match query.where:
            case "or":
                texts[table] = format_or(written, runs)
            case "in":
                texts[table] = format_in(written, runs)
            case "between":
                stored = [period for period, kept in held.items() if kept]
                texts[table] = format_between(written, runs, stored, ignored)
    return texts
