"""Which tables have timelines, for which columns: what the configuration says, what Lens' own properties say, or what values look like.

In this order: a rule whose pattern fits and that names columns; the time columns that the table's own properties name; a rule
that fits without naming columns, which means "look at the values". The first rule that fits counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from state.timelines.storage_forms import ENDS_AND_HOLES
from state.timelines.tables.settings import TableSettings, detect_time_columns, find_lens_columns


if TYPE_CHECKING:
    from collections.abc import Iterable

    from handlers.catalog.following.table_info import Spec, TableInfo
    from state.timelines.periods import UpdatePeriod


NOT_TIME: Final = ("__HIVE_DEFAULT_PARTITION__", "latest", "default", "")
"""Values that say nothing about whether a column holds time (reference: timelines §6.6)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How the tables that fit one of the patterns (``db.table`` with ``*``, ``?``, ``[...]``) are followed."""

    tables: tuple[str, ...]
    columns: tuple[str, ...] = ()
    periods: tuple[UpdatePeriod, ...] = ()
    iso_weeks: bool = False
    form: str = ENDS_AND_HOLES.name
    jump_max: int | None = None

    def fits(self, name: str) -> bool:
        """Whether one of the patterns is the table's name."""
        return any(fnmatchcase(name, pattern) for pattern in self.tables)

    def settings(self, table: TableInfo, columns: Iterable[str]) -> TableSettings | None:
        """Return how to follow ``columns`` of the table; None where it has none of them."""
        known = set(table.columns)
        chosen = tuple(column for column in columns if column.lower() in known)
        if not chosen:
            return None
        return TableSettings(
            table.columns,
            chosen,
            periods=self.periods,
            iso_weeks=self.iso_weeks,
            form=self.form,
            jump_max=self.jump_max,
        )


_PLAIN: Final = Rule(())


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one source."""

    rules: tuple[Rule, ...] = ()
    lens: bool = True
    """Whether tables that name their time columns themselves are followed without a rule."""
    exclude: tuple[str, ...] = ()

    def accepts(self, table: TableInfo) -> bool:
        """Whether the table has, or may turn out to have, timelines."""
        return self.settings(table) is not None or self.looks(table)

    def settings(self, table: TableInfo) -> TableSettings | None:
        """Return how to follow the table, None where nothing but its values could tell or it is not followed."""
        rule = self._rule(table)
        if rule is None:
            return None
        return rule.settings(table, rule.columns or find_lens_columns(table.parameters, table.columns))

    def looks(self, table: TableInfo) -> bool:
        """Whether the table's values decide."""
        rule = self._rule(table)
        return rule is not None and rule is not _PLAIN and not rule.columns and self.settings(table) is None

    def detected(self, table: TableInfo, specs: Iterable[Spec]) -> TableSettings | None:
        """Return how to follow a table by its values; None where no column holds time."""
        rule = self._rule(table)
        return (
            None
            if rule is None
            else rule.settings(table, detect_time_columns(table.columns, specs, NOT_TIME))
        )

    def _rule(self, table: TableInfo) -> Rule | None:
        if not table.columns or any(fnmatchcase(table.name, pattern) for pattern in self.exclude):
            return None
        rule = next((rule for rule in self.rules if rule.fits(table.name)), None)
        return rule if rule is not None or not self.lens else _PLAIN
