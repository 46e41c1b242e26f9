"""Backfill from a raw directory that holds records that the stream rejected."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streaming.settings import Limits
from streaming.upkeep.backfill import backfill
from tests.builders.flat.streams import Stream, rules


if TYPE_CHECKING:
    from pathlib import Path


HOUR_S = 3_600
FIRST = int(time.time()) // HOUR_S * HOUR_S - 10 * HOUR_S


def event(hour: int, second: int, **more: Any) -> dict[str, Any]:
    return {"epoch": FIRST + hour * HOUR_S + second, "uuid": f"{hour}-{second}", **more}


def test_an_oversize_record_neither_prevents_the_backfill_of_its_hour_nor_enters_it(
    tmp_path: Path, spark: Any, database: str
) -> None:
    spark.sql(f"CREATE DATABASE {database}")
    first = Stream.of_directory(
        tmp_path / "flat", database, rules("epoch", "uuid"), limits=Limits(record_bytes=1_024)
    )
    for hour in range(3):
        oversize = [event(hour, 99, long="x" * 2_000)] if hour == 0 else []
        first.land(f"{hour}", [*(event(hour, n, newly=n) for n in range(5)), *oversize])
    first.run(spark)
    asked = rules("epoch", "uuid", "newly", probation_values=1)
    stream = Stream(
        replace(first.settings, rules=asked, raw_location=str(first.landing)),
        first.landing,
    )
    stream.land("3", [event(3, n, newly=n) for n in range(5)])
    stream.run(spark)
    parts = stream.parts(spark)
    with (first.landing / "late.json").open("w") as file:
        file.write(f'{{"epoch":{FIRST + HOUR_S},"uuid":"only in the raw table","newly":1}}\n')

    done = backfill(
        parts.sealer.rewriter, parts.stream.lease.hold(), range(FIRST, FIRST + 2 * HOUR_S), any_number=True
    )

    assert [(each.rows, each.raw_rows, each.is_done) for each in done] == [(5, 5, True), (5, 6, True)]
    uuids = [row["uuid"] for row in stream.rows(spark)]
    assert len(uuids) == 21
    assert "0-99" not in uuids
    letters = spark.read.orc(f"{stream.settings.dead_letter_directory}/oversize")
    assert letters.count() == 1
