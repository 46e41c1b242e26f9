"""Backfill: past hours are split again from the raw table, so that keys requested since then have their values there too.

The stream fills a new column only for new rows. For older hours the raw table is the source: the events of an hour are read from it,
split with all current columns, and replace the hour like any rewriting. No rows may be lost by this. If the raw table holds fewer events
of the hour than the flat table, the hour is left unchanged and reported (the raw table may start later, may have been cleaned, or holds
what the stream rejected as too late).

Records longer than ``limits.record_bytes`` are dead letters of the stream, so they are not events of the hour: they neither prevent its
replacement nor enter it. Malformed rows have no event time and cannot be found in the raw table by hour; the flat table's own malformed rows are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from state.columns.slots import HOUR_S, RESCUED, Layout, SlotState
from state.errors import ConfigError
from streaming.batch.observations import merge_counts
from streaming.batch.routing import WHEN, event_seconds
from streaming.source.raw_events import normalize_columns
from streaming.split.parse_schema import quote
from streaming.split.splitter import MALFORMED, split


if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streaming.settings import FlatSettings
    from streaming.table.flat_table import HourPartition, TableState
    from streaming.upkeep.rewriting import Rewriter


@dataclass(frozen=True, slots=True)
class BackfillResult:
    """The outcome for an hour."""

    hour: int
    rows: int
    raw_rows: int
    is_done: bool
    """False if the raw table holds another number of events, so that the hour was left unchanged."""


def backfill(
    rewriter: Rewriter, state: TableState, hours: range | None, *, any_number: bool = False
) -> list[BackfillResult]:
    """Split sealed ``hours`` (None: all) again from the raw table, in order; open hours are left out.

    With ``any_number``, the raw table is used even if it holds more events than the hour. Raises ConfigError without a raw table.
    """
    raw = _open_raw(rewriter)
    chosen = [each for each in rewriter.table.partitions() if hours is None or each.hour in hours]
    return [
        _backfill_hour(rewriter, state, raw, each, any_number=any_number) for each in chosen if each.is_sealed
    ]


def _backfill_hour(
    rewriter: Rewriter, state: TableState, raw: DataFrame, partition: HourPartition, *, any_number: bool
) -> BackfillResult:
    from pyspark.sql import functions

    hour, settings = partition.hour, rewriter.settings
    sampler = rewriter.sampler
    old = rewriter.read(sampler.list_files(str(partition.location)), state.layout)
    kept = _select_malformed(old, state.layout)
    near = raw.filter(_arrival_condition(settings, state, hour)) if _is_partitioned(raw, state) else raw
    accepted = near.filter(f"octet_length(value) <= {settings.limits.record_bytes}")
    rows = split(
        accepted,
        _revive_keys(state.layout),
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


def _open_raw(rewriter: Rewriter) -> DataFrame:
    """Return the raw rows with ``value`` and those partition columns that the raw table has."""
    from pyspark.errors import AnalysisException

    settings, spark = rewriter.settings, rewriter.spark
    if not (settings.raw_table or settings.raw_location):
        raise ConfigError("a backfill needs the raw table", setting="raw_table", table=settings.name)
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
            hint="Spark looks for the table in its own catalog. If the raw events are files of JSON lines, set flat.NAME.raw_files.",
        ) from error
    names = [column.name for column in settings.partition_columns if column.name in table.columns]
    return table.selectExpr(f"cast({quote(settings.raw_column)} as string) as value", *map(quote, names))


def _is_partitioned(raw: DataFrame, state: TableState) -> bool:
    return set(state.columns.names) <= set(raw.columns)


def _arrival_condition(settings: FlatSettings, state: TableState, hour: int) -> str:
    """Return the condition for partitions that may hold events of ``hour``: by arrival, up to the permitted delay."""
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


def _revive_keys(layout: Layout) -> Layout:
    """Return the layout with retired keys as live ones, so that their values in the hour are kept."""
    slots = (
        replace(slot, state=SlotState.LIVE) if slot.state is SlotState.EMPTY else slot
        for slot in layout.slots
    )
    return Layout(layout.version, tuple(slots))


def _select_malformed(rows: DataFrame, layout: Layout) -> DataFrame:
    texts = rows.filter(f"{RESCUED} IS NOT NULL").selectExpr(f"{RESCUED} AS value")
    return split(texts, layout).filter(MALFORMED).selectExpr(*(quote(slot.name) for slot in layout.slots))
