"""Compares a table's timelines with the partitions that the source has now."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from handlers.catalog.following.listings import list_partitions
from handlers.catalog.following.table_info import describe_table
from handlers.catalog.timelines.timeline_load import parse_period
from state.store.memory import MemoryStore
from state.timelines.tables.projection import Timelines


if TYPE_CHECKING:
    from handlers.catalog.timelines.timeline_follower import TimelineFollower
    from handlers.metastore.client import Metastore
    from state.timelines.periods import UpdatePeriod
    from state.timelines.runs import Runs


@dataclass(frozen=True, slots=True)
class Drift:
    """The differences of one timeline: ranges of partitions that exist on one side only, as ``[first, end)``."""

    column: str
    period: UpdatePeriod
    missing: tuple[str, ...]
    """In the source, not in the timeline."""
    surplus: tuple[str, ...]
    """In the timeline, not in the source."""


@dataclass(frozen=True, slots=True)
class TimelineComparison:
    """The result of a check; where ``moving``, the source changed meanwhile, which may be the only difference."""

    drift: tuple[Drift, ...]
    source_event_id: int
    moving: bool


def compare_timelines(
    source: Metastore, follower: TimelineFollower, name: str, event_id: int
) -> TimelineComparison:
    """Compare a table's timelines, which reflect ``event_id``, with a fresh listing. Raises NotFound, Transient."""
    timelines = follower.timelines
    db, _, table_part = name.partition(".")
    table = describe_table(source.get_table(db, table_part))
    settings = timelines.settings(name)
    fresh, store = Timelines(), MemoryStore()
    with store.transaction() as txn:
        change = fresh.change(txn)
        change.follow(name, settings)
        partitions = list_partitions(source, table, by_name=follower.names_suffice(table))
        change.load(
            name, ((partition.spec, parse_period(partition.parameters, settings)) for partition in partitions)
        )
    change.publish()
    newest = source.current_event_id()
    keys = {(t.column, t.period) for side in (timelines, fresh) for t in side.timelines(name)}
    found = [
        _compare_runs(column, period, fresh.runs(name, period, column), timelines.runs(name, period, column))
        for column, period in sorted(keys, key=lambda key: (key[0], -key[1].weight_ms))
    ]
    drift = tuple(one for one in found if one.missing or one.surplus)
    return TimelineComparison(drift, newest, moving=newest != event_id)


def _compare_runs(column: str, period: UpdatePeriod, source: Runs, known: Runs) -> Drift:
    return Drift(column, period, _subtract(period, source, known), _subtract(period, known, source))


def _subtract(period: UpdatePeriod, left: Runs, right: Runs) -> tuple[str, ...]:
    """Return the ranges in ``left`` that are not in ``right``."""
    found = []
    for start, end in left.pairs():
        edges = [start, *right.between(start, end), end]
        gaps = list(pairwise(edges))[::2]
        found += [f"[{period.format(low)}, {period.format(high)})" for low, high in gaps if low < high]
    return tuple(found)
