"""The rules of a flat table: every threshold by which keys become columns, columns change their type, and
keys reuse slots.

One frozen value makes a decision a function of its input: the same rules, requested keys and observations
lead to the same table on every machine and at every repetition. The defaults are those of the reference
(json-splitting.md §6).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from annotated_types import Interval

from state.bounds import check_bounds
from state.columns.paths import DEPTH_MAX, KeyPath
from state.columns.slots import SLOTS_MAX
from state.columns.types import ColumnType, Evidence
from state.errors import ConfigError


class IntWidth(StrEnum):
    """Width of a column of integers."""

    NARROW = "narrow"
    """As narrow as the values allow; wider ones widen it in place."""
    BIGINT = "bigint"
    """Always 64 bits: files are as small (json-splitting.md §2.3), and the column never changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatRules:
    """How requested keys become columns, and how columns change."""

    requested_days: Annotated[int, Interval(ge=1, le=3_650)] = 30
    """How long a request for a key counts."""
    retention_days: Annotated[int, Interval(ge=1, le=36_500)] = 60
    """Days for which partitions exist."""
    empty_days: Annotated[int, Interval(ge=1, le=36_500)] = 60
    """How long a column must have had no value before another key may take its slot; at least
    retention_days."""
    columns_max: Annotated[int, Interval(ge=1, lt=SLOTS_MAX)] = 300
    """Keys that may have a column at the same time."""
    columns_per_user_max: Annotated[int, Interval(ge=1)] = 100
    """Columns that the requests of a single user may create."""
    candidates_max: Annotated[int, Interval(ge=0)] = 200
    """Requested keys without values, searched for in new rows."""
    depth_max: Annotated[int, Interval(ge=1, le=DEPTH_MAX)] = 8
    """Members of a column's key; a reader finds a deeper key in the JSON text of its ancestor."""
    children_max: Annotated[int, Interval(ge=1)] = 8
    """Requested members of one object above which the object itself becomes the column."""
    fill_min: Annotated[float, Interval(ge=0, le=1)] = 0.01
    """Mean share of rows that an object's members fill, below which the object becomes the column."""
    parent_users_share_min: Annotated[float, Interval(ge=0, le=1)] = 0.1
    """An object replaces the columns of its members only if this share of their users requests it."""
    probation_values: Annotated[int, Interval(ge=1)] = 1_000
    """Values required before a new key may become a numeric column; one full hour is sufficient too."""
    misfit_share_max: Annotated[float, Interval(ge=0, le=1)] = 1e-3
    """Share of the retained values that fit no numeric type, above which a column becomes STRING."""
    misfits_min: Annotated[int, Interval(ge=1)] = 20
    """Number of such values below which a column keeps its type, however large their share."""
    promotion_delay_hours: Annotated[int, Interval(ge=0, le=8_760)] = 24
    """Delay between the announcement and the promotion, during which users can pin the key to its type
    instead."""
    refresh_hours: Annotated[int, Interval(ge=1, le=8_760)] = 24
    """Age of the hours in column comments beyond which the table is altered only to update them."""
    int_width: IntWidth = IntWidth.NARROW
    """Width of integer columns: 'narrow' is as narrow as the values allow, 'bigint' is always 64 bits."""
    exact_floats: bool = False
    """Whether numbers with a fraction stay text."""
    booleans: bool = False
    """Whether true and false become BOOLEAN, which never widens; otherwise they are text."""
    numeric_strings: frozenset[KeyPath] = frozenset()
    """Keys whose quoted integers count as integers."""
    whitelist: frozenset[KeyPath] = frozenset()
    """Keys that are always columns, requested or not."""
    skip: tuple[str, ...] = ()
    """Keys that never become columns: patterns such as $.debug.*, with '*', '?' and '[...]'."""
    pins: Mapping[KeyPath, ColumnType] = field(default_factory=dict)
    """Fixed types of columns: key to type."""

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.empty_days < self.retention_days:
            raise ConfigError(
                "empty_days must be at least retention_days, or a slot would be reused while old partitions "
                "are kept",
                empty_days=self.empty_days,
                retention_days=self.retention_days,
            )
        if len(self.whitelist) > self.columns_max:
            raise ConfigError(
                "the whitelist has more keys than columns_max",
                columns_max=self.columns_max,
                whitelist=len(self.whitelist),
            )
        if ColumnType.NULL in self.pins.values():
            raise ConfigError("a key cannot be pinned to the type NULL")

    def skips(self, key: KeyPath) -> bool:
        """Whether a pattern of ``skip`` excludes ``key`` and the whitelist does not contain it."""
        return key not in self.whitelist and any(
            fnmatch.fnmatchcase(key.text, pattern) for pattern in self.skip
        )

    def type_of(self, key: KeyPath, evidence: Evidence) -> ColumnType:
        """Return the type that a column of ``key`` needs by these rules; NULL if the key has neither a pin
        nor a value.
        """
        pinned = self.pins.get(key)
        if pinned is not None:
            return pinned
        if evidence.has_floats and self.exact_floats:
            return ColumnType.STRING
        derived = evidence.type
        if derived.is_integer and self.int_width is IntWidth.BIGINT:
            return ColumnType.BIGINT
        if derived is ColumnType.BOOLEAN and not self.booleans:
            return ColumnType.STRING
        return derived
