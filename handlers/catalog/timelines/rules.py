"""Decides which tables have timelines and for which columns:
from the configuration, Lens' properties, or partition values.

In this order: a matching rule that names columns; the time columns that the table's own properties name; a
matching rule without columns, which means that the values decide. The first rule that matches applies.

The representations of ``Rules`` and ``Rule`` are in the store (``rules_text`` of the follower): renaming a
class or a field makes every catalog survey its source again.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from state.timelines.storage_forms import ENDS_AND_HOLES
from state.timelines.tables.settings import SENTINELS, TableSettings, detect_time_columns, find_lens_columns


if TYPE_CHECKING:
    from collections.abc import Iterable

    from handlers.catalog.following.table_info import Spec, TableInfo
    from state.timelines.periods import UpdatePeriod


NOT_TIME: Final = ("__HIVE_DEFAULT_PARTITION__", "latest", "default", "")
"""Values that do not decide whether a column contains time (reference: lens-timelines.md §6.6)."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Settings for the tables that match one of the patterns (``db.table`` with ``*``, ``?``, ``[...]``)."""

    tables: tuple[str, ...]
    columns: tuple[str, ...] = ()
    periods: tuple[UpdatePeriod, ...] = ()
    iso_weeks: bool = False
    """Whether weeks are ISO 8601 weeks; otherwise they start on Sunday, as in Lens."""
    form: str = ENDS_AND_HOLES.name
    jump_max: int | None = None
    sentinels: tuple[str, ...] = SENTINELS

    def matches(self, name: str) -> bool:
        """Whether one of the patterns matches the table's name."""
        return any(fnmatchcase(name, pattern) for pattern in self.tables)

    def settings(self, table: TableInfo, columns: Iterable[str]) -> TableSettings | None:
        """Return the settings for ``columns`` of the table; None if the table has none of these columns."""
        names = set(table.columns)
        selected = tuple(column for column in columns if column.lower() in names)
        if not selected:
            return None
        return TableSettings(
            table.columns,
            selected,
            periods=self.periods,
            iso_weeks=self.iso_weeks,
            form=self.form,
            jump_max=self.jump_max,
            sentinels=self.sentinels,
        )


_DEFAULT_RULE: Final = Rule(())


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one source."""

    rules: tuple[Rule, ...] = ()
    lens: bool = True
    """Whether tables whose properties name their time columns (cube.storagetable.time.partcols) need no
    rule.
    """
    exclude: tuple[str, ...] = ()

    def accepts(self, table: TableInfo) -> bool:
        """Whether the table has, or may turn out to have, timelines."""
        return self.settings(table) is not None or self.decides_by_values(table)

    def settings(self, table: TableInfo) -> TableSettings | None:
        """Return the table's settings; None if it is not followed, or if its values decide which columns
        contain time.
        """
        rule = self._rule(table)
        if rule is None:
            return None
        return rule.settings(table, rule.columns or find_lens_columns(table.parameters, table.columns))

    def decides_by_values(self, table: TableInfo) -> bool:
        """Whether the table's partition values decide which columns contain time."""
        rule = self._rule(table)
        return (
            rule is not None
            and rule is not _DEFAULT_RULE
            and not rule.columns
            and self.settings(table) is None
        )

    def detect(
        self, table: TableInfo, specs: Iterable[Spec], known: Iterable[str] = ()
    ) -> TableSettings | None:
        """Return the table's settings from its partition values; None if no column contains time.

        ``known`` are columns detected before.
        """
        rule = self._rule(table)
        if rule is None:
            return None
        ignored = (*NOT_TIME, *rule.sentinels)
        return rule.settings(table, detect_time_columns(table.columns, specs, ignored, known))

    def _rule(self, table: TableInfo) -> Rule | None:
        if not table.columns or any(fnmatchcase(table.name, pattern) for pattern in self.exclude):
            return None
        rule = next((rule for rule in self.rules if rule.matches(table.name)), None)
        return rule if rule is not None or not self.lens else _DEFAULT_RULE
