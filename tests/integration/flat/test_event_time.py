"""Which texts are event times, in Spark and in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from streaming.settings import EpochUnit
from streaming.source.event_times import event_seconds, read_seconds


TIME = 1_795_170_600
NUMBERS = {
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
}
DAY = 1_763_942_400
NOON = DAY + 12 * 3_600
ISO = {
    "2025-11-24": DAY,
    "2025-11-24T12:00Z": NOON,
    "2025-11-24T12:00": NOON,
    "2025-11-24 12:00": NOON,
    " 2025-11-24T12:00:00Z ": NOON,
    "2025-11-24t12:00:00z": NOON,
    "2025-11-24t12:00z": NOON,
    "2025-11-24T12:00:00.999999999Z": NOON,
    "2025-11-24T12:00:00,5Z": NOON,
    "2025-11-24T12:00:00,5+01:00": NOON - 3_600,
    "2025-11-24T12:00+01:00": NOON - 3_600,
    "2025-11-24T12:00-0130": NOON + 5_400,
    "2025-11-24T12:00:00+01": NOON - 3_600,
    "2025-11-24T12:00:00 +1": NOON - 3_600,
    "2025-11-24T12:00:00+18:00": NOON - 18 * 3_600,
    "2025-11-24T12:00:00 UTC": NOON,
    "2025-11-24T12:00 GMT+1": NOON - 3_600,
    "2025-11-24T12:00 Europe/Paris": NOON - 3_600,
    "2025-07-24T12:00 Europe/Paris": 1_753_351_200,
    "2025-1-4 1:2:3": 1_735_952_523,
    "12:30": None,
    "T12:30": None,
    "12:30:00Z": None,
    "2025": None,
    "2025-11": None,
    "2025-11-24T": None,
    "2025-11-24T12": None,
    "2025-11-24T24:00:00Z": None,
    "2025-11-24T12:00:60Z": None,
    "2025-11-31": None,
    "2025-11-24T12:00:00+25:00": None,
    "2025-11-24T12:00:00+01:75": None,
    "2025-11-24T12:00:00 Mars/Olympus": None,
    "2025-11-24 UTC": None,
    "2025-11-24T12:00:00Z, later": None,
    "now": None,
    "today": None,
    f"{TIME}": None,
    "": None,
}
BEFORE = TIME - 1
CASES: dict[EpochUnit, Mapping[str, int | None]] = {
    EpochUnit.SECONDS: NUMBERS,
    EpochUnit.ISO: ISO,
    EpochUnit.MILLISECONDS: {f"{BEFORE}999": BEFORE, f"{TIME}000.5": TIME, "1.7951706E12": TIME},
    EpochUnit.MICROSECONDS: {f"{BEFORE}999999": BEFORE, f"{TIME}000000": TIME, "1.7951706E15": TIME},
    EpochUnit.NANOSECONDS: {
        f"{BEFORE}999999999": BEFORE,
        f"{TIME}000000000": TIME,
        "1.7951706E18": TIME,
        f"-{TIME}000000000": None,
        f"{TIME}000000000L": None,
        "9" * 40: None,
        "1e99": None,
    },
}


@pytest.mark.parametrize("unit", CASES)
def test_a_text_is_the_same_time_for_spark_and_python_and_depends_on_no_clock(
    spark: Any, unit: EpochUnit
) -> None:
    from pyspark.sql import functions

    texts = CASES[unit]
    assert {text: read_seconds(text, unit) for text in texts} == texts
    expected: dict[str | None, int | None] = {None: None}
    expected.update(texts.items())
    rows = spark.createDataFrame([(text,) for text in expected], "text string")
    when = event_seconds(functions.col("text"), unit)
    assert {row[0]: row[1] for row in rows.select("text", when).collect()} == expected
