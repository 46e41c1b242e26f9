"""Backfill from a raw directory that holds records that the stream rejected."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from state.errors import InvalidRequest, NotFound
from streaming.settings import Limits
from streaming.upkeep import backfill as backfilling
from streaming.upkeep import raw_hours
from streaming.upkeep.backfill import backfill
from tests.builders.flat.streams import Stream, key, rules


HOUR_S = 3_600
FIRST = int(time.time()) // HOUR_S * HOUR_S - 10 * HOUR_S


def event(hour: int, second: int, **more: Any) -> dict[str, Any]:
    return {"epoch": FIRST + hour * HOUR_S + second, "uuid": f"{hour}-{second}", **more}


@pytest.mark.long
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

    hours: list[tuple[int, int, int]] = []
    rewriter = replace(
        parts.sealer.rewriter, report=lambda _, hour, done, total: hours.append((hour, done, total))
    )
    again = backfill(rewriter, parts.stream.lease.hold(), None, key=key("newly"))
    assert [each.hour for each in again] == [FIRST + 2 * HOUR_S], "the other hours have values of the key"
    assert hours == [(FIRST + 2 * HOUR_S, 1, 1)]
    assert sum(row["newly"] is not None for row in stream.rows(spark)) == 21
    assert not parts.storage.list(f"{stream.settings.location}/.staging")
    with pytest.raises(NotFound, match="no column"):
        backfill(rewriter, parts.stream.lease.hold(), None, key=key("other"))


def test_hours_are_split_from_one_scan_of_the_raw_directory(
    tmp_path: Path, spark: Any, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql(f"CREATE DATABASE {database}")
    stream = Stream.of_directory(tmp_path / "flat", database, rules("epoch", "uuid"))
    for hour in range(4):
        stream.land(f"{hour}", [event(hour, n, price=n if hour else n + 0.5) for n in range(3)])
    stream.run(spark)
    stream.settings = replace(
        stream.settings, rules=rules("epoch", "uuid", "price"), raw_location=str(stream.landing)
    )
    stream.land("4", [event(4, 0, price="x")])
    stream.run(spark)
    scans: list[list[int]] = []
    stage = raw_hours.stage_hours

    def count(*given: Any) -> None:
        scans.append([each.hour for each in given[4]])
        stage(*given)

    monkeypatch.setattr(backfilling, "stage_hours", count)
    parts = stream.parts(spark)
    backfill(parts.sealer.rewriter, parts.stream.lease.hold(), None)
    assert scans == [[FIRST + hour * HOUR_S for hour in range(4)]]
    prices = {row["uuid"]: row["price"] for row in stream.rows(spark)}
    assert (prices["0-0"], prices["1-1"], prices["4-0"]) == ("0.5", "1", "x")


def make_hours(stream: Stream, spark: Any, events: list[list[Any]]) -> Stream:
    """Write hours before the key ``newly`` has a column, and one after; return the stream that knows it."""
    for hour, rows in enumerate(events):
        stream.land(f"{hour}", rows)
    stream.run(spark)
    stream.settings = replace(
        stream.settings,
        rules=rules("epoch", "uuid", "price", "newly", probation_values=1, misfits_min=1_000),
        raw_location=str(stream.landing),
    )
    stream.land("last", [event(9, n, newly=n) for n in range(5)])
    stream.run(spark)
    return stream


@pytest.mark.long
def test_one_key_is_filled_beside_the_columns_of_an_hour_if_another_key_identifies_its_events(
    tmp_path: Path, spark: Any, database: str
) -> None:
    spark.sql(f"CREATE DATABASE {database}")
    stream = Stream.of_directory(
        tmp_path / "flat", database, rules("epoch", "uuid", "price", misfits_min=1_000)
    )
    plain = [event(0, n, price=n, newly=n + 100) for n in range(20)]
    strays = [event(1, n, price="text" if n == 3 else n, newly="x" if n == 4 else n) for n in range(20)]
    twice = [event(2, n % 19, newly=n) for n in range(20)]
    nameless = [event(3, n, newly=n) for n in range(20)]
    del nameless[7]["uuid"]
    make_hours(stream, spark, [plain, [*strays, "not JSON"], twice, nameless])
    before = {row["uuid"]: row for row in stream.rows(spark)}
    parts = stream.parts(spark)

    done = backfill(
        parts.sealer.rewriter, parts.stream.lease.hold(), None, key=key("newly"), match=key("uuid")
    )

    assert [(each.is_done, each.is_matched) for each in done] == [
        (True, True),
        (True, True),
        (True, False),
        (True, False),
    ]
    rows = stream.rows(spark)
    assert len(rows) == 86
    after = {row["uuid"]: row for row in rows}
    for n in range(20):
        assert after[f"0-{n}"]["newly"] == str(n + 100)
        assert after[f"1-{n}"]["newly"] == (None if n == 4 else str(n))
        assert after[f"1-{n}"]["price"] == before[f"1-{n}"]["price"]
        assert bool(after[f"1-{n}"]["_rescued"]) == (n == 4 or bool(before[f"1-{n}"]["_rescued"]))
    assert {row["newly"] for row in rows if (row["uuid"] or "").startswith("2-")} == {
        str(n) for n in range(20)
    }
    assert sum(row["_rescued"] == "not JSON" for row in rows) == 1
    assert not parts.storage.list(f"{stream.settings.location}/.staging")
    with pytest.raises(NotFound, match="no column"):
        backfill(
            parts.sealer.rewriter, parts.stream.lease.hold(), None, key=key("newly"), match=key("nothing")
        )
    with pytest.raises(InvalidRequest, match="matched"):
        backfill(parts.sealer.rewriter, parts.stream.lease.hold(), None, key=key("newly"), match=key("newly"))
