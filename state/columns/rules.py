"""The rules of a flat table: every threshold by which keys become columns, columns change their type, and slots are used again.

One frozen value, so that a decision is a function of what it was given: the same rules, asked keys and observations lead to the
same table on every machine and at every repetition. The defaults are those of the reference (json-splitting.md §6).
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from state.columns.paths import DEPTH_MAX
from state.columns.slots import SLOTS_MAX
from state.columns.types import ColumnType
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.columns.paths import KeyPath
    from state.columns.types import Evidence


class IntWidth(StrEnum):
    """How wide a column of integers is made."""

    NARROW = "narrow"
    """As narrow as the values allow; wider ones widen it in place."""
    BIGINT = "bigint"
    """Always 64 bits: files are as small (reference §2.3), and the column never changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatRules:
    """Thresholds of one flat table; ConfigError where two of them contradict each other."""

    asked_days: int = 30
    """How long a question counts: keys asked for within these days are wanted."""
    retention_days: int = 60
    """How long partitions are kept."""
    empty_days: int = 60
    """How long a slot has had no value before another key may have it; at least the retention."""
    columns_max: int = 300
    columns_per_user_max: int = 100
    """Columns that one person alone can bring into being."""
    candidates_max: int = 200
    """Asked keys that no row has brought yet and that are looked for nevertheless."""
    depth_max: int = 8
    """Members of a column's key; deeper ones are served from the JSON text of their ancestor there."""
    children_max: int = 8
    """Members of one object asked for before the object itself becomes the column."""
    fill_min: float = 0.01
    """Mean share of rows that siblings fill, below which their object becomes the column."""
    parent_users_share_min: float = 0.1
    """An object asked for swallows the columns of its members only if asked by this share of their users."""
    probation_values: int = 1_000
    """Values seen before a new key may become a number; a full hour does as well."""
    misfit_share_max: float = 1e-4
    """Share of an hour's values that did not fit, above which retained partitions are rewritten for a wider type."""
    refresh_hours: int = 24
    """How stale the last-seen hours in the comments may become before they alone are worth an alteration."""
    int_width: IntWidth = IntWidth.NARROW
    exact_floats: bool = False
    """Whether numbers with a fraction stay text."""
    booleans: bool = False
    """Whether true and false become BOOLEAN; text otherwise, as the metastore never widens a BOOLEAN."""
    numeric_strings: frozenset[KeyPath] = frozenset()
    """Keys whose quoted integers count as integers."""
    whitelist: frozenset[KeyPath] = frozenset()
    """Keys that are always wanted and never collapse."""
    skip: tuple[str, ...] = ()
    """Keys that are never columns: patterns of the shell over a key's text, as in ``$.debug.*``."""
    pins: Mapping[KeyPath, ColumnType] = field(default_factory=dict)
    """Types that people decided on."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ConfigError("a rule of the flat table is too small", rule=name, least=least)
        for name in ("fill_min", "parent_users_share_min", "misfit_share_max"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError("a rule of the flat table is a share from 0 to 1", rule=name)
        if self.depth_max > DEPTH_MAX:
            raise ConfigError(
                "columns lie deeper than keys are read", depth_max=self.depth_max, limit=DEPTH_MAX
            )
        if self.empty_days < self.retention_days:
            raise ConfigError(
                "a slot would be used again while old partitions are kept",
                empty_days=self.empty_days,
                retention_days=self.retention_days,
            )
        if not len(self.whitelist) <= self.columns_max < SLOTS_MAX:
            raise ConfigError(
                "columns_max holds the whitelist and stays below the slots",
                columns_max=self.columns_max,
                whitelist=len(self.whitelist),
                slots_max=SLOTS_MAX,
            )
        if ColumnType.NULL in self.pins.values():
            raise ConfigError("a key cannot be pinned to no type")

    def skips(self, key: KeyPath) -> bool:
        """Whether a pattern keeps ``key`` out; the whitelist is stronger."""
        return key not in self.whitelist and any(
            fnmatch.fnmatchcase(key.text, pattern) for pattern in self.skip
        )

    def type_of(self, key: KeyPath, evidence: Evidence) -> ColumnType:
        """Return the type that a column of ``key`` needs by these rules; NULL where there is neither pin nor value."""
        pinned = self.pins.get(key)
        if pinned is not None:
            return pinned
        if evidence.has_floats and self.exact_floats:
            return ColumnType.STRING
        found = evidence.type
        if found.is_integer and self.int_width is IntWidth.BIGINT:
            return ColumnType.BIGINT
        if found is ColumnType.BOOLEAN and not self.booleans:
            return ColumnType.STRING
        return found


_LEAST: Final = {
    "asked_days": 1,
    "retention_days": 1,
    "empty_days": 1,
    "columns_max": 1,
    "columns_per_user_max": 1,
    "candidates_max": 0,
    "depth_max": 1,
    "children_max": 1,
    "probation_values": 1,
    "refresh_hours": 1,
}
