"""Comparing a table's timelines with the partitions that the source has now."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from handlers.catalog.following.loader import list_partitions
from handlers.catalog.following.table_info import describe_table
from handlers.catalog.timelines.timeline_follower import period_of
from state.store.memory import MemoryStore
from state.timelines.tables.projection import Timelines


if TYPE_CHECKING:
    from handlers.catalog.timelines.timeline_follower import TimelineFollower
    from handlers.metastore.client import Metastore
    from state.timelines.periods import UpdatePeriod
    from state.timelines.runs import Runs


@dataclass(frozen=True, slots=True)
class Drift:
    """How one timeline differs: ranges of partitions that only one side has, as ``[first, end)``."""

    column: str
    period: UpdatePeriod
    missing: tuple[str, ...]
    """In the source, not in the timeline."""
    surplus: tuple[str, ...]
    """In the timeline, not in the source."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a check found; where ``moving``, the source changed meanwhile and differences may only be that."""

    drift: tuple[Drift, ...]
    source_event_id: int
    moving: bool


def compare(source: Metastore, follower: TimelineFollower, name: str, event_id: int) -> Comparison:
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
        change.load(name, ((seen.spec, period_of(seen.parameters, settings)) for seen in partitions))
    change.publish()
    newest = source.current_event_id()
    keys = {(t.column, t.period) for side in (timelines, fresh) for t in side.timelines(name)}
    found = [
        _drift(column, period, fresh.runs(name, period, column), timelines.runs(name, period, column))
        for column, period in sorted(keys, key=lambda key: (key[0], -key[1].weight_ms))
    ]
    drift = tuple(one for one in found if one.missing or one.surplus)
    return Comparison(drift, newest, moving=newest != event_id)


def _drift(column: str, period: UpdatePeriod, there: Runs, here: Runs) -> Drift:
    return Drift(column, period, _only(period, there, here), _only(period, here, there))


def _only(period: UpdatePeriod, left: Runs, right: Runs) -> tuple[str, ...]:
    """Return the ranges that are in ``left`` and not in ``right``."""
    found = []
    for start, end in left.pairs():
        edges = [start, *right.between(start, end), end]
        gaps = list(pairwise(edges))[::2]
        found += [f"[{period.format(low)}, {period.format(high)})" for low, high in gaps if low < high]
    return tuple(found)
