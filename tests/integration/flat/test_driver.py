"""A long-running driver: it waits for files, maintains the table and stops on request; on Spark's own
catalog."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import threading
import time
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from state.columns.types import ColumnType
from state.errors import FilesUnavailable, NotFound
from streaming.driver.assembly import assemble
from streaming.driver.progress import StopReason
from streaming.driver.run import Driver
from streaming.settings import DirectorySource, Sealing
from streaming.split import plain_rows
from tests.builders.flat.streams import Stream, rules


HOUR_S = 3_600
FIRST = int(time.time()) // HOUR_S * HOUR_S - 10 * HOUR_S
DEADLINE_S = 180.0
COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    ".json": bytes,
    ".json.gz": gzip.compress,
    ".json.bz2": bz2.compress,
}


def event(hour: int, second: int, **more: Any) -> dict[str, Any]:
    return {"epoch": FIRST + hour * HOUR_S + second, "uuid": f"{hour}-{second}", **more}


@pytest.fixture
def stream(tmp_path: Path, spark: Any, database: str) -> Stream:
    spark.sql(f"CREATE DATABASE {database}")
    return Stream.of_directory(tmp_path / "flat", database, rules("epoch", "uuid", "n"))


def test_the_driver_reads_new_files_while_it_runs_and_stops_after_the_current_batch(
    stream: Stream, spark: Any
) -> None:
    told: list[Any] = []
    news = threading.Event()

    def tell(message: Any) -> None:
        told.append(message)
        news.set()

    driver = Driver(stream.parts(spark), tell)
    ended: list[StopReason] = []
    running = threading.Thread(target=lambda: ended.append(driver.run(once=False)))
    running.start()
    try:
        for hour in range(2):
            stream.land(f"{hour}", [event(hour, n, n=n) for n in range(5)])
            wait_for_batches(told, news, hour + 1)
    finally:
        driver.stop()
        running.join(DEADLINE_S)
    assert ended == ["stop requested"]
    assert len(stream.rows(spark)) == 10
    stream.land("2", [event(2, 0)])
    assert Driver(stream.parts(spark), tell).run(once=True) == "source exhausted"
    assert len(stream.rows(spark)) == 11


def wait_for_batches(told: list[Any], news: threading.Event, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while sum(each["event"] == "progress" for each in told) < count:
        assert news.wait(deadline - time.monotonic())
        news.clear()


@pytest.mark.long
def test_sparks_two_readers_see_correct_values_at_every_moment_of_a_promotion(
    stream: Stream, spark: Any
) -> None:
    stream.settings = replace(stream.settings, sealing=Sealing(old_files_s=0, hours_per_pass=1))
    types = set()
    for hour in range(5):
        odd = {3: "x", 4: "007"} if hour == 1 else {}
        stream.land(f"{hour}", [event(hour, n, n=odd.get(n, n)) for n in range(10)])
        stream.run(spark)
        table = stream.parts(spark).stream.table
        types.add(table.read().layout.slots[2].type)
        name = f"{stream.settings.database}.events_flat"
        spark.catalog.refreshTable(name)
        for by_serde in ("true", "false"):
            spark.conf.set("spark.sql.hive.convertMetastoreOrc", by_serde)
            found = spark.sql(
                f"SELECT count(*), count_if(n IS NOT NULL OR _rescued IS NOT NULL) FROM {name} "
            ).collect()[0]
            assert tuple(found) == (10 * (hour + 1), 10 * (hour + 1))
            text = "'5'" if table.read().layout.slots[2].type is ColumnType.STRING else "5"
            assert spark.sql(f"SELECT uuid FROM {name} WHERE n = {text}").count() == hour + 1
        spark.conf.unset("spark.sql.hive.convertMetastoreOrc")
    assert types == {ColumnType.TINYINT, ColumnType.STRING}


def test_a_missing_landing_directory_is_one_error_that_passes_when_it_is_created(
    stream: Stream, spark: Any
) -> None:
    stream.landing.rmdir()
    with pytest.raises(FilesUnavailable, match="directory of raw events"):
        stream.run(spark)
    stream.landing.mkdir()
    assert stream.run(spark) == []


def test_a_file_is_read_whatever_its_time_is(stream: Stream, spark: Any) -> None:
    week_s = 7 * 24 * HOUR_S
    ages = {"from an archive": 2 * week_s, "of a wrong clock": -week_s}
    for number, name in enumerate(["first", *ages, "last"]):
        stream.land(name, [event(0, number)])
        written_s = time.time() - ages.get(name, 0)
        os.utime(stream.landing / f"{name}.json", (written_s, written_s))
        stream.run(spark)
    assert sorted(row["uuid"] for row in stream.rows(spark)) == ["0-0", "0-1", "0-2", "0-3"]


@pytest.mark.parametrize("parser", [*plain_rows.CONF.values(), ""])
def test_a_byte_order_mark_at_the_beginning_of_a_file_changes_no_row(
    stream: Stream, spark: Any, parser: str
) -> None:
    (setting,) = plain_rows.CONF
    before = spark.conf.get(setting)
    events = [event(0, n, n=value) for n, value in enumerate([1, "x", 2.5])]
    for ending, compress in COMPRESSED.items():
        for first in range(3):  # a plain row, a misfit, and a number that is not an integer
            content = b"".join(json.dumps(each).encode() + b"\n" for each in events[first:] + events[:first])
            for mark in (b"", BOM_UTF8):
                (stream.landing / f"{first}-{len(mark)}{ending}").write_bytes(compress(mark + content))
    stream.settings = replace(
        stream.settings, source=DirectorySource(str(stream.landing), files_per_batch=100)
    )
    spark.conf.set(setting, parser)
    try:
        stream.run(spark)
        rows = Counter(map(str, stream.rows(spark)))
    finally:
        spark.conf.set(setting, before)
    assert (set(rows.values()), len(rows), stream.letters()) == ({18}, 3, {})


def test_a_byte_order_mark_elsewhere_is_a_part_of_its_line(stream: Stream, spark: Any) -> None:
    first, second = (json.dumps(event(0, n)).encode() + b"\n" for n in range(2))
    (stream.landing / "joined.json").write_bytes(BOM_UTF8 + first + BOM_UTF8 + second)
    stream.run(spark)
    assert stream.letters() == {"malformed": 1}
    assert {row["uuid"] for row in stream.rows(spark)} == {"0-0", None}


def test_a_damaged_file_is_named_and_read_once_when_it_has_been_replaced(stream: Stream, spark: Any) -> None:
    path = stream.landing / "a file.json.gz"
    whole = gzip.compress(os.urandom(10_000))
    path.write_bytes(whole[: len(whole) // 2])
    for _ in range(2):
        with pytest.raises(FilesUnavailable, match="file cannot be read") as raised:
            stream.run(spark)
        assert str(raised.value.context["path"]).endswith("/a%20file.json.gz")
    for n in (100_000, 7):
        # The second file is one that was read before: each name counts once.
        path.write_bytes(gzip.compress(json.dumps(event(0, 0, n=n)).encode()))
        stream.run(spark)
    (row,) = stream.rows(spark)
    assert (row["uuid"], row["n"]) == ("0-0", "100000")


def test_a_damaged_file_that_is_removed_is_skipped(stream: Stream, spark: Any) -> None:
    path = stream.landing / "a.json.gz"
    path.write_bytes(b"not compressed")
    with pytest.raises(FilesUnavailable):
        stream.run(spark)
    path.unlink()
    stream.land("b", [event(0, 0)])
    stream.run(spark)
    assert [row["uuid"] for row in stream.rows(spark)] == ["0-0"]


def test_a_reader_of_the_plan_creates_neither_table_nor_checkpoint(stream: Stream, spark: Any) -> None:
    with pytest.raises(NotFound):
        assemble(stream.settings, spark, read_only=True)
    assert sorted(path.name for path in stream.landing.parent.iterdir()) == ["landing"]
