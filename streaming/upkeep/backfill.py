"""Backfill: past hours are split once more from the raw table, so that keys asked for since have their values there too.

The stream gives a new column only to rows that come. For older hours the raw table is the source: the hour's events are read
there, split with all the columns of today, and take the hour's place like any rewriting does. Nobody may lose by it: the raw
table has to hold as many events of the hour as the flat table, else the hour is left as it is and told about (a raw table that
starts later, was cleaned, or holds what the stream called too late).

Malformed rows have no event time, so they cannot be found in the raw table by hour; the flat table's own are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from state.columns.slots import HOUR_S, RESCUED, Layout, SlotState
from state.errors import ConfigError
from streaming.batch.observations import merge_counts
from streaming.batch.routing import WHEN, event_seconds
from streaming.source.raw_events import normalize_columns
from streaming.split.parse_schema import quote
from streaming.split.splitter import MALFORMED, split


if TYPE_CHECKING:
    from streaming.settings import FlatSettings
    from streaming.table.flat_table import HourPartition, TableState
    from streaming.upkeep.rewriting import Rewriter


@dataclass(frozen=True, slots=True)
class BackfillResult:
    """What became of an hour."""

    hour: int
    rows: int
    raw_rows: int
    is_done: bool
    """False where the raw table holds another number of events, so that the hour was left as it is."""


def backfill(
    rewriter: Rewriter, state: TableState, hours: range | None, *, any_number: bool = False
) -> list[BackfillResult]:
    """Split sealed ``hours`` (None: all that the table has) once more from the raw table, in order; open ones are left out.

    With ``any_number`` the raw table is right even where it holds more events than the hour. ConfigError without a raw table.
    """
    raw = _raw(rewriter)
    asked = [each for each in rewriter.table.partitions() if hours is None or each.hour in hours]
    return [_hour(rewriter, state, raw, each, any_number=any_number) for each in asked if each.is_sealed]


def _hour(
    rewriter: Rewriter, state: TableState, raw: Any, partition: HourPartition, *, any_number: bool
) -> BackfillResult:
    from pyspark.sql import functions

    hour, settings = partition.hour, rewriter.settings
    sampler = rewriter.sampler
    old = rewriter.read(sampler.list_files(str(partition.location)), state.layout)
    kept = _malformed(old, state.layout)
    near = raw.filter(_nearby(settings, state, hour)) if _is_partitioned(raw, state) else raw
    rows = split(
        near,
        _everything(state.layout),
        keep=["value"],
        texts={WHEN: settings.event_time.key},
        numeric_strings=settings.rules.numeric_strings,
    )
    seconds = event_seconds(functions.col(WHEN), settings.event_time)
    mine = (seconds >= hour) & (seconds < hour + HOUR_S) & ~functions.col(MALFORMED)
    fresh = rows.filter(mine).selectExpr(*(quote(slot.name) for slot in state.layout.slots))
    had = merge_counts(sampler.read_counts(sampler.list_files(str(partition.location)))).rows
    found = fresh.count() + kept.count()
    if found == had or (any_number and found > had):
        rewriter.rewrite(
            partition, state, sealed=True, replaced_by=fresh.unionByName(kept), more_rows=any_number
        )
        return BackfillResult(hour, had, found, is_done=True)
    return BackfillResult(hour, had, found, is_done=False)


def _raw(rewriter: Rewriter) -> Any:
    """Return the raw rows with ``value``, and the raw table's partition columns where it has any."""
    from pyspark.errors import AnalysisException

    settings, spark = rewriter.settings, rewriter.spark
    if not (settings.raw_table or settings.raw_location):
        raise ConfigError("backfilling needs the raw table", setting="raw_table", table=settings.name)
    try:
        if settings.raw_location:
            lines = spark.read.option("recursiveFileLookup", "true").text(settings.raw_location)
            return normalize_columns(lines, arrival="0")
        table = spark.table(settings.raw_table)
    except AnalysisException as error:
        raise ConfigError(
            "Spark cannot read the raw table",
            raw_table=settings.raw_table,
            raw_location=settings.raw_location or None,
            reason=str(error)[:300],
            hint="Spark looks for it in its own catalog: give flat.NAME.raw_files where it is a directory of JSON lines.",
        ) from error
    names = [column.name for column in settings.partition_columns if column.name in table.columns]
    return table.selectExpr(f"cast({quote(settings.raw_column)} as string) as value", *map(quote, names))


def _is_partitioned(raw: Any, state: TableState) -> bool:
    return set(state.columns.names) <= set(raw.columns)


def _nearby(settings: FlatSettings, state: TableState, hour: int) -> str:
    """Where the raw table may hold events of ``hour``: by arrival, so from a little before to as late as is accepted."""
    first = hour - settings.event_time.future_s // HOUR_S * HOUR_S - HOUR_S
    hours = range(first, hour + settings.event_time.grace_s + 2 * HOUR_S, HOUR_S)
    alternatives = (
        " AND ".join(
            f"{quote(name)} = '{value}'"
            for name, value in zip(state.columns.names, state.columns.values(each), strict=True)
        )
        for each in hours
    )
    return " OR ".join(f"({each})" for each in alternatives)


def _everything(layout: Layout) -> Layout:
    """Return the layout with retired keys alive, so that the values they have in the hour stay."""
    slots = (
        replace(slot, state=SlotState.LIVE) if slot.state is SlotState.EMPTY else slot
        for slot in layout.slots
    )
    return Layout(layout.version, tuple(slots))


def _malformed(rows: Any, layout: Layout) -> Any:
    texts = rows.filter(f"{RESCUED} IS NOT NULL").selectExpr(f"{RESCUED} AS value")
    return split(texts, layout).filter(MALFORMED).selectExpr(*(quote(slot.name) for slot in layout.slots))
