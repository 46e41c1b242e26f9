"""The rules of a flat table: how questions become columns, and columns change."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from daemon.config.fields import Keys, KeyText, as_list, key_named
from daemon.config.section import Section, refused
from state.columns.rules import FlatRules, IntWidth
from state.columns.types import ColumnType
from state.errors import ConfigError


PATTERN_CHARS_MAX: Final = 1_024
RULES: Final = FlatRules()

TypeName = Literal["tinyint", "smallint", "int", "bigint", "double", "string", "boolean"]


class FlatRulesConfig(Section):
    """How questions become columns, and columns change."""

    asked_days: int = Field(
        default=RULES.asked_days, ge=1, le=3_650, description="How long a question counts."
    )
    retention_days: int = Field(
        default=RULES.retention_days, ge=1, le=36_500, description="How long partitions are kept."
    )
    empty_days: int = Field(
        default=RULES.empty_days,
        ge=1,
        le=36_500,
        description="How long a column has had no value before another key may have its place; at least retention_days.",
    )
    columns_max: int = Field(
        default=RULES.columns_max, ge=1, lt=1_500, description="Keys that may have a column at once."
    )
    columns_per_user_max: int = Field(
        default=RULES.columns_per_user_max,
        ge=1,
        description="Columns that one person alone can bring into being.",
    )
    candidates_max: int = Field(
        default=RULES.candidates_max, ge=0, description="Asked keys without values that are looked out for."
    )
    depth_max: int = Field(
        default=RULES.depth_max,
        ge=1,
        le=32,
        description="Members of a column's key; what lies deeper is served from its ancestor's JSON text.",
    )
    children_max: int = Field(
        default=RULES.children_max,
        ge=1,
        description="Members of one object asked for before the object itself becomes the column.",
    )
    fill_min: float = Field(
        default=RULES.fill_min,
        ge=0,
        le=1,
        description="Mean share of rows that an object's members fill, below which the object becomes the column.",
    )
    parent_users_share_min: float = Field(
        default=RULES.parent_users_share_min,
        ge=0,
        le=1,
        description="An object takes its members' columns only if this share of their users asks for it.",
    )
    probation_values: int = Field(
        default=RULES.probation_values,
        ge=1,
        description="Values seen before a new key may become a number; a full hour does as well.",
    )
    misfit_share_max: float = Field(
        default=RULES.misfit_share_max,
        ge=0,
        le=1,
        description="Share of an hour's values that did not fit, above which partitions are rewritten for a wider type.",
    )
    refresh_hours: int = Field(
        default=RULES.refresh_hours,
        ge=1,
        le=8_760,
        description="How stale the hours in column comments may become before they alone are worth an alteration.",
    )
    int_width: Literal["narrow", "bigint"] = Field(
        default=RULES.int_width.value, description="Whether integers are as narrow as they can be."
    )
    exact_floats: bool = Field(
        default=RULES.exact_floats, description="Whether numbers with a fraction stay text."
    )
    booleans: bool = Field(
        default=RULES.booleans, description="Whether true and false become BOOLEAN; else they are text."
    )
    numeric_strings: Keys = Field(
        default=[], max_length=1_500, description="Keys whose quoted integers count as integers."
    )
    whitelist: Keys = Field(
        default=[], max_length=1_500, description="Keys that are always columns, asked for or not."
    )
    skip: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=PATTERN_CHARS_MAX)]], BeforeValidator(as_list)
    ] = Field(
        default=[],
        max_length=1_500,
        description="Keys that are never columns: patterns such as $.debug.*, with '*', '?' and '[...]'.",
    )
    pins: dict[KeyText, TypeName] = Field(
        default={}, max_length=1_500, description="Types that are decided: key to type."
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        try:
            self.values()
        except ConfigError as error:
            raise refused(error.message) from None
        return self

    def values(self) -> FlatRules:
        """Return the rules as the value that decisions are made by."""
        same: dict[str, Any] = self.model_dump(
            exclude={"int_width", "numeric_strings", "whitelist", "skip", "pins"}
        )
        return FlatRules(
            **same,
            int_width=IntWidth(self.int_width),
            numeric_strings=frozenset(map(key_named, self.numeric_strings)),
            whitelist=frozenset(map(key_named, self.whitelist)),
            skip=tuple(self.skip),
            pins={key_named(key): ColumnType[name.upper()] for key, name in self.pins.items()},
        )
