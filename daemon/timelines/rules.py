"""Settings of timelines as ``handlers`` and ``state`` know them: rules and facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.timelines.settings import FACTS
from handlers.catalog.timelines.rules import Rule, Rules
from state.timelines.calendar_units import TIME_END_S, TIME_START_S
from state.timelines.periods import UpdatePeriod
from state.timelines.tables.facts import Fact, StorageTable
from state.timelines.time_ranges import TimeRange


if TYPE_CHECKING:
    from daemon.catalog.settings import CatalogConfig
    from daemon.config.model import Config
    from daemon.timelines.settings import FactConfig


def rules_of(catalog: CatalogConfig) -> Rules:
    """Return the rules as handlers know them."""
    rules = tuple(
        Rule(
            tuple(rule.tables),
            tuple(rule.columns),
            tuple(UpdatePeriod.from_lens_name(period, iso_weeks=rule.iso_weeks) for period in rule.periods),
            rule.iso_weeks,
            rule.form,
            rule.jump_max,
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
