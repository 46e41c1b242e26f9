"""Why a table is quarantined: the value that projections report, and that status, log and JSON show."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableFailure:
    """The first failure of a quarantined table."""

    table: str
    """``db.table`` at the source."""
    event_id: int | None
    """The event that could not be applied; None if the table failed while it was loaded."""
    time_s: int | None
    """Unix time; None if an older version recorded the failure."""
    code: str
    reason: str
