"""Reads the raw events of hours from the raw table or a directory, splits them and stages them by hour, for
backfills.

It scans the raw table once for each group of hours, not for each hour, and counts the rows by the footers of
the staged files.

In the stream, records longer than ``limits.record_bytes`` are dead letters, so a backfill ignores them.
Malformed rows have no event time and cannot be found in the raw table by hour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.columns.slots import HOUR_S
from state.errors import ConfigError
from streaming.batch.routing import TO, WHEN
from streaming.jvm_errors import read_causes, run_error
from streaming.source.event_times import event_seconds
from streaming.source.raw_events import FILE_OPTIONS, normalize_columns
from streaming.split.file_columns import write_files
from streaming.split.parse_schema import quote
from streaming.split.plain_rows import separate_documents
from streaming.split.split_plan import MALFORMED
from streaming.split.splitter import SHORT_LIVED_OPTIONS, split_packed


if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from state.columns.slots import Layout
    from streaming.settings import FlatSettings
    from streaming.table.flat_table import HourPartition, TableState
    from streaming.upkeep.rewriting import Rewriter


def open_raw(rewriter: Rewriter) -> DataFrame:
    """Return the raw rows with the column ``value`` and the raw table's partition columns."""
    from pyspark.errors import AnalysisException

    settings, spark = rewriter.settings, rewriter.spark
    if not (settings.raw_table or settings.raw_location):
        raise ConfigError("a backfill needs the raw table", setting="raw_table", table=settings.name)
    try:
        if settings.raw_location:
            lines = spark.read.options(**FILE_OPTIONS).text(settings.raw_location)
            return separate_documents(normalize_columns(lines, arrival="0"), settings.source.documents)
        table = spark.table(settings.raw_table)
    except AnalysisException as error:
        raise run_error(read_causes(error)) or ConfigError(
            "Spark cannot read the raw table",
            raw_table=settings.raw_table,
            raw_location=settings.raw_location or None,
            reason=str(error)[:300],
            hint="Spark looks for the table in its own catalog. If the raw events are files of JSON "
            "lines, set flat.NAME.raw_files.",
        ) from error
    names = [column.name for column in settings.partition_columns if column.name in table.columns]
    rows = table.selectExpr(f"cast({quote(settings.raw_column)} as string) as value", *map(quote, names))
    return separate_documents(rows, settings.source.documents)


def stage_hours(  # noqa: PLR0913, PLR0917 - a scan has that many sides
    rewriter: Rewriter,
    state: TableState,
    layout: Layout,
    raw: DataFrame,
    group: Sequence[HourPartition],
    directory: str,
) -> None:
    """Split the raw events of these hours by ``layout`` into files by hour (``hour_directory``), in one scan
    of the raw table.
    """
    from pyspark.sql import functions

    settings = rewriter.settings
    near = raw.filter(_arrival_condition(settings, state, group)) if _is_partitioned(raw, state) else raw
    accepted = near.filter(f"octet_length(value) <= {settings.limits.record_bytes}")
    rows = split_packed(
        accepted,
        layout,
        texts={WHEN: settings.event_time.key},
        numeric_strings=settings.rules.numeric_strings,
    )
    seconds = event_seconds(functions.col(WHEN), settings.event_time.unit)
    hour = seconds - seconds % HOUR_S
    mine = hour.isin([each.hour for each in group]) & ~functions.col(MALFORMED)
    options = {"compression": settings.compression, **SHORT_LIVED_OPTIONS}
    staged = rows.withColumn(TO, hour.cast("string")).filter(mine)
    write_files(staged, layout, directory, options=options, by=[TO])


def hour_directory(directory: str, hour: int) -> str:
    """Return the directory with the staged files of an hour."""
    return f"{directory}/{TO}={hour}"


def _is_partitioned(raw: DataFrame, state: TableState) -> bool:
    return set(state.columns.names) <= set(raw.columns)


def _arrival_condition(settings: FlatSettings, state: TableState, group: Sequence[HourPartition]) -> str:
    """Return the condition for partitions that may hold events of these hours, which arrive up to the
    permitted delay later.
    """
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
