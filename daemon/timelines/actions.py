"""The actions of the API on the timelines of a table, with the forms of their parameters and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from daemon.catalog.branch import BranchAction, TableParameters
from daemon.http.actions import STRICT


@dataclass(frozen=True)
class MigrationParameters:
    """A timeline and its new storage form."""

    __pydantic_config__ = STRICT
    table: str
    """``db.table``."""
    column: str
    """Time column."""
    period: str
    """Update period, such as ``DAILY``."""
    to: str
    """``ends-and-holes``, ``ranges`` or ``store-all``."""


@dataclass(frozen=True)
class LoadedTimelines:
    """The number of timelines of the table, and the event id that they reflect."""

    table: str
    timelines: int
    event_id: int


@dataclass(frozen=True)
class TimelineDrift:
    """The differences of one timeline as ranges ``[first, end)``."""

    column: str
    period: str
    missing: list[str]
    """In the source, not in the timeline."""
    surplus: list[str]
    """In the timeline, not in the source."""


@dataclass(frozen=True)
class CheckedTimelines:
    """The differences between the timelines of a table and its partitions at the source."""

    table: str
    event_id: int
    current_event_id: int
    moving: bool
    """Whether the source changed during the check, which may be the only difference."""
    drift: list[TimelineDrift]


@dataclass(frozen=True)
class MigratedTimeline:
    """The storage form of a timeline before and after."""

    table: str
    column: str
    period: str
    before: str
    after: str
    written: bool
    """Whether the table's properties had to change."""
    event_id: int


ACTIONS: Final[Sequence[BranchAction]] = (
    BranchAction(
        "load-timelines",
        "Load the timelines of a table again from the metastore.",
        TableParameters,
        LoadedTimelines,
    ),
    BranchAction(
        "check-timelines",
        "Compare the timelines of a table with the metastore.",
        TableParameters,
        CheckedTimelines,
    ),
    BranchAction(
        "migrate-timeline",
        "Change the storage form of a timeline in the table's properties.",
        MigrationParameters,
        MigratedTimeline,
    ),
)
