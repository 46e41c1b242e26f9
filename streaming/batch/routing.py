"""Where each row goes, as Spark expressions: into its event hour, or to the dead letters and why.

One string column, ``to``: the hour as seconds since 1970, or the name of a reason. It depends on the row and the batch's plan
alone (its watermark, its clock), so a batch that runs again sends every row the same way.

A malformed row has no event time; it goes by its arrival, so that nobody has to look for it elsewhere than in its hour.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from state.columns.slots import HOUR_S
from streaming.settings import EpochUnit, LatePolicy


if TYPE_CHECKING:
    from streaming.batch.records import BatchPlan
    from streaming.settings import EventTime, FlatSettings


class Reason(StrEnum):
    """Why a row is a dead letter."""

    OVERSIZE = "oversize"
    WRONG_TIME = "wrong-time"
    """It tells no time, or one that cannot be: before the limit, or too far in the future."""
    EXPIRED = "expired"
    """Its hour is older than partitions are kept."""
    TOO_LATE = "too-late"
    MALFORMED = "malformed"
    """It is no JSON object. Its raw text is in its hour's ``_rescued`` too."""


def event_seconds(text: Any, when: EventTime) -> Any:
    """Return the event's time in whole seconds since 1970, a LONG column, from the text of its key; NULL where it is none."""
    from pyspark.sql import functions as sql

    if when.unit is EpochUnit.ISO:
        return sql.unix_timestamp(sql.try_to_timestamp(text))
    number = text.try_cast("double")
    seconds = number / 1000 if when.unit is EpochUnit.MILLISECONDS else number
    in_range = (seconds >= 0) & (seconds < 1e11)
    return sql.when(in_range, sql.floor(seconds)).cast("long")


def destination(
    settings: FlatSettings, plan: BatchPlan, *, seconds: Any, arrival: Any, size: Any, malformed: Any
) -> Any:
    """Return the column ``to``.

    ``seconds`` and ``arrival`` are LONG columns of seconds since 1970, ``size`` the record's length in bytes, ``malformed`` a
    BOOLEAN column.
    """
    from pyspark.sql import functions as sql

    when = settings.event_time
    possible = seconds.between(when.earliest_s, plan.now_s + when.future_s)
    taken = sql.when(malformed, sql.least(arrival, sql.lit(plan.now_s))).when(possible, seconds)
    hour = taken - taken % HOUR_S
    routed = sql.when(size > settings.limits.record_bytes, Reason.OVERSIZE.value).when(
        taken.isNull(), Reason.WRONG_TIME.value
    )
    reached = plan.watermark.reached_s
    if reached is not None:
        routed = routed.when(hour < reached - settings.retention_s, Reason.EXPIRED.value)
        if when.too_late is LatePolicy.TO_DEAD_LETTERS:
            routed = routed.when(hour + HOUR_S + when.grace_s <= reached, Reason.TOO_LATE.value)
    return routed.otherwise(hour.cast("string"))


def parse_destination(to: str) -> int | None:
    """Return the hour that a value of ``to`` names; None for a dead letter."""
    return int(to) if to.isdecimal() else None
