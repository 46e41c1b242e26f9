"""Routes rows to their destinations with Spark expressions.

The string column ``to`` is the row's hour in seconds since 1970, or the reason why the row is a dead letter.
It depends only on the row and the batch's plan (its watermark and clock), so a batch that runs again routes
every row as before.

A malformed row has no event time. Its arrival time counts instead, so users find the row in the hour of its
arrival.

The clock and the watermark differ from batch to batch. As literals, they would be part of the code that Spark
generates. Spark would then compile the code again for every batch, and Java would interpret it at first.
``_per_batch`` keeps them out of the code.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from state.columns.slots import HOUR_S
from streaming.settings import LatePolicy
from streaming.source.event_times import event_seconds
from streaming.split.split_plan import MALFORMED
from streaming.split.splitter import split_packed


if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streaming.batch.records import BatchPlan
    from streaming.settings import FlatSettings


TO: Final = "to"
WHEN: Final = "_tideline_when"
_KEPT: Final = ("value", "size", "arrival", "part")


class Reason(StrEnum):
    """The reason why a row is a dead letter."""

    OVERSIZE = "oversize"
    WRONG_TIME = "wrong-time"
    """The event time is missing or impossible: before the limit, or too far in the future."""
    EXPIRED = "expired"
    """Its hour is older than the retention."""
    TOO_LATE = "too-late"
    MALFORMED = "malformed"
    """The text is not a JSON object. ``_rescued`` of its hour has it, too."""


def route_rows(settings: FlatSettings, plan: BatchPlan, raw: DataFrame) -> DataFrame:
    """Split the rows of ``raw`` (``streaming.source.raw_events``), and add the columns ``to``,
    ``_tideline_when`` and ``SLOTS``.
    """
    from pyspark.sql import functions

    rows = split_packed(
        raw,
        plan.layout,
        keep=_KEPT,
        texts={WHEN: settings.event_time.key},
        numeric_strings=settings.rules.numeric_strings,
    )
    rows = rows.withColumn(WHEN, event_seconds(functions.col(WHEN), settings.event_time.unit))
    to = destination(
        settings,
        plan,
        seconds=functions.col(WHEN),
        arrival=functions.col("arrival"),
        size=functions.col("size"),
        part=functions.col("part"),
        malformed=functions.col(MALFORMED),
    )
    return rows.withColumn(TO, to)


def destination(
    settings: FlatSettings,
    plan: BatchPlan,
    *,
    seconds: Column,
    arrival: Column,
    size: Column,
    part: Column,
    malformed: Column,
) -> Column:
    """Return the column ``to``.

    ``seconds`` and ``arrival`` are LONG columns of seconds since 1970, ``size`` the record's length in bytes,
    ``part`` the number of the source's partition, ``malformed`` a BOOLEAN column.
    """
    from pyspark.sql import functions as sql

    when = settings.event_time
    possible = seconds.between(sql.lit(when.earliest_s), _per_batch(plan.now_s + when.future_s, part))
    event_s = sql.when(malformed, sql.least(arrival, _per_batch(plan.now_s, part))).when(possible, seconds)
    hour = event_s - event_s % HOUR_S
    routed = sql.when(size > settings.limits.record_bytes, Reason.OVERSIZE.value).when(
        event_s.isNull(), Reason.WRONG_TIME.value
    )
    reached = plan.watermark.reached_s
    if reached is not None:
        expired = hour < _per_batch(reached - settings.retention_s, part)
        routed = routed.when(expired, Reason.EXPIRED.value)
        if when.too_late is LatePolicy.TO_DEAD_LETTERS:
            late = hour <= _per_batch(reached - HOUR_S - when.grace_s, part)
            routed = routed.when(late, Reason.TOO_LATE.value)
    return routed.otherwise(hour.cast("string"))


def _per_batch(value: int, part: Column) -> Column:
    """Return the number as an element of a constant array, which Spark passes to generated code instead of
    writing it into the code.

    The index is always 0, but Spark cannot know that; otherwise it would compute the element in advance.
    """
    from pyspark.sql import functions as sql

    return sql.get(sql.array(sql.lit(value).cast("long")), sql.least(part, sql.lit(0)))


def parse_destination(to: str) -> int | None:
    """Return the hour that a value of ``to`` names; None for a dead letter."""
    return int(to) if to.isdecimal() else None
