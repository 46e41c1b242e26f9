"""Backfill: past hours are split again from the raw table, so that keys requested since then have their values there too.

The stream fills a new column only for new rows. For older hours the raw table is the source: the events of an hour are read from it,
split with all current columns, and replace the hour like any rewriting. No rows may be lost by this. If the raw table holds fewer events
of the hour than the flat table, the hour is left unchanged and reported (the raw table may start later, may have been cleaned, or holds
what the stream rejected as too late).

The raw table is scanned once for each group of hours, not once for each hour: the split rows are staged by hour, and counted by the footers
of the staged files. Rows of the raw and the flat table cannot be matched one by one, so an hour is always replaced with all its
columns. A backfill of one key therefore chooses the hours that need it and leaves out the others.

Records longer than ``limits.record_bytes`` are dead letters of the stream, so they are not events of the hour: they neither prevent its
replacement nor enter it. Malformed rows have no event time and cannot be found in the raw table by hour; the flat table's own malformed rows are kept.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from state.columns.slots import HOUR_S, RESCUED, Layout, SlotState
from state.errors import ConfigError, NotFound
from streaming.batch.observations import merge_counts
from streaming.batch.routing import TO, WHEN, event_seconds
from streaming.source.raw_events import normalize_columns
from streaming.split.parse_schema import quote
from streaming.split.splitter import MALFORMED, SHORT_LIVED_OPTIONS, split
from streaming.table.parameters import VALUES
from streaming.table.value_counts import parse_counts


if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from state.columns.paths import KeyPath
    from streaming.settings import FlatSettings
    from streaming.table.flat_table import HourPartition, TableState
    from streaming.upkeep.rewriting import Rewriter


HOURS_PER_SCAN: Final = 24
"""Hours whose raw events are read in one scan; the split rows wait in the staging directory."""


@dataclass(frozen=True, slots=True)
class BackfillResult:
    """The outcome for an hour."""

    hour: int
    rows: int
    raw_rows: int
    is_done: bool
    """False if the raw table holds another number of events, so that the hour was left unchanged."""


def backfill(
    rewriter: Rewriter,
    state: TableState,
    hours: range | None,
    *,
    any_number: bool = False,
    key: KeyPath | None = None,
) -> list[BackfillResult]:
    """Split sealed ``hours`` (None: all) again from the raw table, in order; open hours are left out.

    With ``any_number``, the raw table is used even if it holds more events than the hour. With ``key``, only hours are chosen that
    were written before the key had its column, and hold no value of it. Raises ConfigError without a raw table, and NotFound if the
    key has no column.
    """
    raw = _open_raw(rewriter)
    chosen = [each for each in _choose_hours(rewriter, state, key) if hours is None or each.hour in hours]
    done: list[BackfillResult] = []
    for start in range(0, len(chosen), HOURS_PER_SCAN):
        group = chosen[start : start + HOURS_PER_SCAN]
        directory = f"{rewriter.settings.location.rstrip('/')}/.staging/backfill-{secrets.token_hex(4)}"
        try:
            _stage_group(rewriter, state, raw, group, directory)
            for partition in group:
                staged = rewriter.sampler.list_files(f"{directory}/{TO}={partition.hour}")
                done.append(_backfill_hour(rewriter, state, partition, staged, any_number=any_number))
                rewriter.report("backfilled", partition.hour, len(done), len(chosen))
        finally:
            rewriter.storage.remove(directory)
    return done


def _choose_hours(rewriter: Rewriter, state: TableState, key: KeyPath | None) -> list[HourPartition]:
    """Return the sealed hours; with ``key`` only those that hold no value of it."""
    sealed = [each for each in rewriter.table.partitions() if each.is_sealed]
    if key is None:
        return sealed
    slot = state.layout.by_key.get(key)
    if slot is None:
        raise NotFound(
            "the key has no column",
            key=key.text,
            table=rewriter.settings.name,
            hint="'tideline keys list --why' shows the reason for each key.",
        )
    return [each for each in sealed if not _count_values(each, slot.index)]


def _count_values(partition: HourPartition, slot: int) -> int:
    values = parse_counts(partition.parameters.get(VALUES, ""))
    return values[slot] if slot < len(values) else 0


def _stage_group(
    rewriter: Rewriter, state: TableState, raw: DataFrame, group: Sequence[HourPartition], directory: str
) -> None:
    """Split the raw events of these hours into files by hour, in one scan of the raw table."""
    from pyspark.sql import functions

    settings = rewriter.settings
    near = raw.filter(_arrival_condition(settings, state, group)) if _is_partitioned(raw, state) else raw
    accepted = near.filter(f"octet_length(value) <= {settings.limits.record_bytes}")
    rows = split(
        accepted,
        _revive_keys(state.layout),
        texts={WHEN: settings.event_time.key},
        numeric_strings=settings.rules.numeric_strings,
    )
    seconds = event_seconds(functions.col(WHEN), settings.event_time)
    hour = seconds - seconds % HOUR_S
    mine = hour.isin([each.hour for each in group]) & ~functions.col(MALFORMED)
    columns = [quote(slot.name) for slot in state.layout.slots]
    writer = rows.withColumn(TO, hour.cast("string")).filter(mine).selectExpr(*columns, quote(TO)).write
    options = {"compression": settings.compression, **SHORT_LIVED_OPTIONS}
    writer.partitionBy(TO).options(**options).orc(directory)


def _backfill_hour(
    rewriter: Rewriter,
    state: TableState,
    partition: HourPartition,
    staged: Sequence[str],
    *,
    any_number: bool,
) -> BackfillResult:
    sampler = rewriter.sampler
    files = sampler.list_files(str(partition.location))
    had = merge_counts(sampler.read_counts(files))
    rows = rewriter.read(staged, state.layout) if staged else None
    found = merge_counts(sampler.read_counts(staged)).rows
    if had.nonnull and had.nonnull[0]:
        kept = _select_malformed(rewriter.read(files, state.layout), state.layout)
        found += kept.count()
        rows = kept if rows is None else rows.unionByName(kept)
    if rows is None or not (found == had.rows or (any_number and found > had.rows)):
        return BackfillResult(partition.hour, had.rows, found, is_done=False)
    rewriter.rewrite(partition, state, sealed=True, replaced_by=rows, more_rows=any_number)
    return BackfillResult(partition.hour, had.rows, found, is_done=True)


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


def _arrival_condition(settings: FlatSettings, state: TableState, group: Sequence[HourPartition]) -> str:
    """Return the condition for partitions that may hold events of these hours: by arrival, up to the permitted delay."""
    before_s = settings.event_time.future_s // HOUR_S * HOUR_S + HOUR_S
    after_s = settings.event_time.grace_s + 2 * HOUR_S
    hours = sorted(
        {hour for each in group for hour in range(each.hour - before_s, each.hour + after_s, HOUR_S)}
    )
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
