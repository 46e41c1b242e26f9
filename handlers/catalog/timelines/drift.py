"""Compares a table's timelines with the partitions that the source has now."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from handlers.catalog.following.background import BackgroundCalls, await_in_steps
from handlers.catalog.following.loads.listings import list_partitions
from handlers.catalog.following.table_info import describe_table
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from handlers.catalog.timelines.timeline_load import parse_period
from handlers.metastore.client import Metastore
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs
from state.timelines.tables.listing import ListingLoad
from state.timelines.tables.settings import TableSettings
from state.timelines.tables.table_timelines import TimelineKey
from state.timelines.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Drift:
    """The differences of one timeline: ranges of partitions that exist on one side only, as
    ``[first, end)``.
    """

    column: str
    period: UpdatePeriod
    missing: tuple[str, ...]
    """In the source, not in the timeline."""
    surplus: tuple[str, ...]
    """In the timeline, not in the source."""


@dataclass(frozen=True, slots=True)
class TimelineComparison:
    """The result of a check; if ``moving``, the source changed meanwhile, which may explain all
    differences.
    """

    drift: tuple[Drift, ...]
    source_event_id: int
    moving: bool


def compare_timelines(
    calls: BackgroundCalls, follower: TimelineFollower, name: str, event_id: Callable[[], int]
) -> Generator[None, None, TimelineComparison]:
    """Compare a table's timelines, which reflect ``event_id()``,
    with a fresh listing, in steps. Raises NotFound, Transient.

    The thread of calls reads the listing and turns it into runs; events may apply meanwhile.
    """
    settings = follower.timelines.settings(name)
    before, fresh, newest = yield from await_in_steps(
        calls.submit(lambda source: _read_runs(source, follower, name, settings))
    )
    timelines = follower.timelines
    keys = {
        *fresh,
        *((timeline.period, _column_number(settings, timeline)) for timeline in timelines.timelines(name)),
    }
    differences = [
        _compare_runs(
            settings.time_columns[number],
            period,
            fresh.get((period, number), Runs()),
            timelines.runs(name, period, settings.time_columns[number]),
        )
        for period, number in sorted(keys, key=lambda key: (settings.time_columns[key[1]], -key[0].weight_ms))
    ]
    drift = tuple(one for one in differences if one.missing or one.surplus)
    return TimelineComparison(drift, newest, moving=not before == newest == event_id())


def _column_number(settings: TableSettings, timeline: Timeline) -> int:
    """Return the number of a timeline's column."""
    return settings.time_columns.index(timeline.column)


def _read_runs(
    source: Metastore, follower: TimelineFollower, name: str, settings: TableSettings
) -> tuple[int, Mapping[TimelineKey, Runs], int]:
    """Return the runs of a table at the source, between the newest event ids before and after the reading."""
    before = source.current_event_id()
    db, _, table_part = name.partition(".")
    table = describe_table(source.get_table(db, table_part))
    partitions = list_partitions(source, table, by_name=follower.names_suffice(table))
    read = ((partition.spec, parse_period(partition.parameters, settings)) for partition in partitions)
    listing = ListingLoad(
        settings, lambda: read
    )  # one pass, while they arrive: a million would not fit into memory
    listing.compute()
    return before, listing.runs, source.current_event_id()


def _compare_runs(column: str, period: UpdatePeriod, source: Runs, indexed: Runs) -> Drift:
    return Drift(column, period, _subtract(period, source, indexed), _subtract(period, indexed, source))


def _subtract(period: UpdatePeriod, left: Runs, right: Runs) -> tuple[str, ...]:
    """Return the ranges in ``left`` that are not in ``right``."""
    names = []
    for start, end in left.pairs():
        edges = [start, *right.between(start, end), end]
        gaps = list(pairwise(edges))[::2]
        names += [f"[{period.format(low)}, {period.format(high)})" for low, high in gaps if low < high]
    return tuple(names)
