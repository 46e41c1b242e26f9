"""Forms of the answers about flat tables, for the description of the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from daemon.flat.status import FlatStatus  # noqa: TC001 - pydantic reads the annotations


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatRow:
    """A flat table in a list."""

    name: str
    table: str
    raw_table: str
    driver: FlatStatus | None
    version: int | None
    updated_at_s: int | None
    age_s: int | None
    """Age of the snapshot that its driver has left."""
    columns: int | None
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatList:
    """The flat tables."""

    flat: list[FlatRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeForm:
    """One change of a flat table's columns."""

    version: int
    n: int
    at_s: int
    kind: str
    slot: int | None
    key: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyList:
    """The keys of a flat table, columns first and by rank. Viewers see pseudonyms in ``users``."""

    table: str
    raw_table: str
    requested_days: int
    requested: int
    """Keys that were queried in these days."""
    columns: int
    columns_max: int
    reasons_from: str
    """``driver``, or ``rules`` if a decision was made since its last batch."""
    driver_at_s: int | None
    keys: list[dict[str, Any]]
    """Keys with verdicts, reasons, and who queries them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleForm:
    """A decision about a key."""

    kind: str
    key: str
    type: str | None
    by: str
    """``configuration``, or the user who decided."""
    at_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleList:
    """The decisions about the keys of a flat table."""

    table: str
    rules: list[RuleForm]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatTable:
    """One flat table. Viewers see pseudonyms in ``users``."""

    name: str
    table: str
    raw_table: str
    driver: FlatStatus | None
    """None if this daemon does not run it."""
    version: int | None
    updated_at_s: int | None
    age_s: int | None
    requested_days: int
    reasons_from: str
    columns_max: int
    totals: dict[str, Any]
    columns: list[dict[str, Any]]
    """Slots with their keys, types, fill rates, and who queries them."""
    candidates: list[dict[str, Any]]
    """Keys without a column, with the reason."""
    changes: list[ChangeForm]
    """The latest changes, newest first."""
