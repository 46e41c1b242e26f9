"""Forms of what all answers about catalogs have in common, for the description of the API.

Answers are plain values. Their forms are declared beside them, and tests check each answer against its form.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStateForm:
    """The state of a table in detail."""

    state: str
    reason: str | None
    event_id: int | None
    """The event that caused the state."""
    tries: int
    next_try_s: float | None
    """Unix time of the next try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Currency:
    """Which source answers, and how current the answer is."""

    source: str
    event_id: int | None
    """The event that the answer reflects."""
    current_event_id: int | None
    """The newest event of the source; null while it cannot be read."""
    stale: bool
    """Whether events are not followed now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSummary:
    """One source in a list of tables."""

    event_id: int | None
    current_event_id: int | None
    stale: bool
    tables: int
    loading: int
    quarantined: list[str]
