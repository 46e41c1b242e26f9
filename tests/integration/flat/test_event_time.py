"""Which texts are event times, in Spark."""

from __future__ import annotations

from typing import Any

from streaming.batch.routing import event_seconds
from streaming.settings import EpochUnit, EventTime
from tests.builders.flat.streams import key


TIME = 1_795_170_600
TEXTS = {
    f"{TIME}": TIME,
    f" {TIME} ": TIME,
    f"{TIME}.9": TIME,
    "1.7951706E9": TIME,
    f"+{TIME}": TIME,
    f"{TIME}d": None,
    f"{TIME}F": None,
    "0x1p30": None,
    "NaN": None,
    "Infinity": None,
    f"-{TIME}": None,
    f"{TIME}L": None,
    "1e99": None,
    "": None,
    "now": None,
    None: None,
}


def test_only_numbers_are_event_times_not_what_java_accepts_besides(spark: Any) -> None:
    from pyspark.sql import functions

    rows = spark.createDataFrame([(text,) for text in TEXTS], "text string")
    when = event_seconds(functions.col("text"), EventTime(key("epoch"), unit=EpochUnit.SECONDS))
    assert {row[0]: row[1] for row in rows.select("text", when).collect()} == TEXTS
