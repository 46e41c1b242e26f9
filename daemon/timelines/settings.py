"""Settings of timelines: facts (section ``facts``), and rules in the form of ``handlers`` and ``state``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from daemon.catalog.settings import CatalogConfig
from daemon.config.crosscheck import entries, problem
from daemon.config.document import Document, Problem
from daemon.config.fields import Name, TableName
from daemon.config.model import Config
from daemon.config.section import ConfigSection, Section, refused
from handlers.catalog.timelines.rules import Rule, Rules
from state.errors import BadInput
from state.timelines.calendar_units import TIME_END_S, TIME_START_S
from state.timelines.periods import UpdatePeriod
from state.timelines.tables.facts import Fact, StorageTable
from state.timelines.time_ranges import TimeRange


def _check_time(text: str) -> str:
    try:
        TimeRange.parse(text, text)
    except BadInput:
        raise refused("must be a partition value such as 2015-01 or an ISO 8601 timestamp") from None
    return text


Time = Annotated[str, AfterValidator(_check_time)]


class FactTable(Section):
    """A storage table of a fact."""

    start: Time | None = Field(
        default=None, description="Start of the period in which covers use the table (UTC)."
    )
    end: Time | None = Field(
        default=None, description="End of the period in which covers use the table (UTC), excluded."
    )


class FactConfig(Section):
    """Tables with the same data, which cover ranges together."""

    source: Name = Field(description="Source of the tables.")
    tables: dict[TableName, FactTable] = Field(
        min_length=1, max_length=64, description="The storage tables, as db.table, each with its time window."
    )


FACTS: Final[ConfigSection[dict[str, FactConfig]]] = ConfigSection(
    "facts",
    dict[Name, FactConfig],
    Field(default={}, max_length=10_000, description="Tables to cover together, by name."),
)


def rules_of(catalog: CatalogConfig) -> Rules:
    """Return the rules in the form of ``handlers``."""
    rules = tuple(
        Rule(
            tuple(rule.tables),
            tuple(rule.columns),
            tuple(UpdatePeriod.from_lens_name(period, iso_weeks=rule.iso_weeks) for period in rule.periods),
            rule.iso_weeks,
            rule.form,
            rule.jump_max,
            tuple(rule.sentinels),
        )
        for rule in catalog.rules.values()
    )
    return Rules(rules, catalog.lens, tuple(catalog.exclude))


def facts_of(config: Config, source: str) -> dict[str, Fact]:
    """Return the facts of a source by name."""
    return {name: _fact(name, fact) for name, fact in FACTS.of(config).items() if fact.source == source}


def _fact(name: str, fact: FactConfig) -> Fact:
    tables = [
        StorageTable(
            table,
            TIME_START_S if window.start is None else TimeRange.parse(window.start, window.start).start_s,
            TIME_END_S if window.end is None else TimeRange.parse(window.end, window.end).start_s,
        )
        for table, window in fact.tables.items()
    ]
    return Fact(name, tuple(tables))


def cross_problems(document: Document) -> Iterator[Problem]:
    """Yield every contradiction between settings."""
    catalogs = [name for name, _ in entries(document, "catalog")]
    for name, fact in entries(document, "facts"):
        source = fact.get("source")
        if isinstance(source, str) and source not in catalogs:
            hint = f"add catalog.{source}, which may be empty"
            yield problem(document, ("facts", name, "source"), source, "must have a catalog", hint)
