"""From raw JSON to a flat table, through batches, sealing and promotion, on a live Hive 4 metastore."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from state.columns.types import ColumnType
from state.errors import Inconsistent, InvalidRequest
from streaming.batch.footers import Kind
from streaming.batch.staged_files import Stager
from streaming.settings import Publishing, Sealing
from streaming.table.parameters import NARROWING
from streaming.upkeep.backfill import backfill
from streaming.upkeep.type_changes import begin_narrowing
from tests.builders.components.spark_sessions import copy_file
from tests.builders.flat.streams import Stream, key, rules


HOUR_S = 3_600
NOW_HOUR = int(time.time()) // HOUR_S * HOUR_S
FIRST = NOW_HOUR - 10 * HOUR_S


def event(hour: int, second: int, **more: Any) -> dict[str, Any]:
    return {"epoch": FIRST + hour * HOUR_S + second, "uuid": f"{hour}-{second}", **more}


@pytest.fixture
def base(source: ClusterEndpoints, database: str) -> Path:
    return Path(source.external) / database


@pytest.fixture
def stream(
    elsewhere: dict[str, Any], base: Path, database: str, metastore: Metastore, source: ClusterEndpoints
) -> Stream:
    asked = rules("epoch", "uuid", "action.name", "n", "misspelled")
    return Stream.of_directory(base, database, asked, source.metastore, **elsewhere)


def columns(stream: Stream, spark: Any) -> dict[str, ColumnType]:
    layout = stream.parts(spark).stream.table.read().layout
    return {slot.name: slot.type for slot in layout.slots}


def test_files_become_a_table_that_hive_reads(
    stream: Stream, spark: Any, source_sql: Session, database: str
) -> None:
    stream.land("a", [event(0, n, action={"name": f"a{n % 2}"}, n=n) for n in range(40)])
    stream.run(spark)
    stream.land("b", [event(1, n, n=1_000 * n) for n in range(40)])
    (wider,) = stream.run(spark)
    assert (wider["misfits"], wider["rescued"]) == (0, 0), (
        "numbers that outgrow their column are right at once"
    )
    assert {row["n"] for row in stream.rows(spark)} >= {"39000", "1000"}
    stream.land(
        "c",
        [
            "no json",
            {"uuid": "when?"},
            event(-90 * 24, 1),
            event(-30, 1),
            event(48, 1),
            *[event(2, n) for n in range(3)],
        ],
    )
    told = stream.run(spark)

    assert columns(stream, spark) == {
        "_rescued": ColumnType.STRING,
        "action/name": ColumnType.STRING,
        "epoch": ColumnType.INT,
        "n": ColumnType.INT,
        "uuid": ColumnType.STRING,
    }
    rows = stream.rows(spark)
    assert sorted(row["uuid"] for row in rows if row["uuid"]) == sorted(
        [f"{h}-{n}" for h in (0, 1) for n in range(40)] + [f"2-{n}" for n in range(3)]
    )
    assert [row["_rescued"] for row in rows if row["uuid"] is None] == ["no json"]
    assert stream.letters() == {"expired": 1, "malformed": 1, "too-late": 1, "wrong-time": 2}
    assert told[-1]["rows"] == 8
    query = (
        f"select count(*), count(n), max(n) from {database}.events_flat where `action/name` = 'a1' and n > 10"
    )
    assert source_sql.rows(query) == [("15", "15", "39")]


def test_a_sealed_hour_is_one_file_and_holds_the_same(stream: Stream, spark: Any) -> None:
    for name, hours in (("a", [0, 0, 1]), ("b", [0, 1, 1]), ("c", [2])):
        stream.land(name, [event(h, 10 * n + ord(name), n=n) for n, h in enumerate(hours)])
        stream.run(spark)
    before = stream.rows(spark)
    stream.upkeep(spark)
    parts = stream.parts(spark)
    partitions = parts.stream.table.partitions()
    assert [each.parameters.get("tideline.sealed") for each in partitions] == ["true", "true", None]
    assert [len(parts.stream.sampler.list_files(str(each.location))) for each in partitions] == [1, 1, 1]
    assert sorted(map(str, stream.rows(spark))) == sorted(map(str, before))
    left = stream.versions(spark)
    assert left == ["v3", "v2", "v1"], "hour 0 was opened again by a late row, and sealed again"


def test_a_numeric_column_becomes_text_hour_by_hour_while_readers_see_correct_values(
    stream: Stream, spark: Any, source_sql: Session, database: str
) -> None:
    stream.settings = replace(stream.settings, sealing=Sealing(old_files_s=0, hours_per_pass=1))
    types = []
    for hour in range(6):
        odd = {3: "x", 4: "007"} if hour == 1 else {}
        stream.land(f"{hour}", [event(hour, n, n=odd.get(n, n)) for n in range(10)])
        stream.run(spark)
        types.append(columns(stream, spark)["n"])
        # Hour 1 brings no 3; a filter on 5 finds one row an hour, whatever the files' types are by now.
        parts = stream.parts(spark)
        layout = parts.stream.table.read().layout
        files = [
            file
            for each in parts.stream.table.partitions()
            for file in parts.stream.sampler.list_files(str(each.location))
        ]
        five = "'5'" if types[-1] is ColumnType.STRING else "5"
        rows = parts.sealer.rewriter.read(files, layout)
        assert rows.filter(f"n = {five}").count() == hour + 1
        assert (
            rows.filter(f"n > {five}").count() + rows.filter(f"n <= {five}").count()
            == rows.filter("n is not null").count()
        )
        assert source_sql.rows(f"select count(*) from {database}.events_flat where n = {five}") == [
            (str(hour + 1),)
        ]
    stream.upkeep(spark)
    assert types[0] is ColumnType.TINYINT
    assert columns(stream, spark)["n"] is ColumnType.STRING
    found = {row["uuid"]: row for row in stream.rows(spark)}
    assert len(found) == 60
    assert [row["_rescued"] for row in found.values() if row["_rescued"]] == []
    assert (found["1-3"]["n"], found["1-4"]["n"], found["0-7"]["n"]) == ("x", "007", "7")


@pytest.mark.long
def test_a_text_column_of_numbers_becomes_numeric_on_request_unless_text_arrives(
    stream: Stream, spark: Any, source_sql: Session, database: str
) -> None:
    stream.settings = replace(stream.settings, sealing=Sealing(old_files_s=0, hours_per_pass=1))
    for hour in range(4):
        stream.land(f"{hour}", [event(hour, n, n=f"{100 * n}") for n in range(5)])
        stream.run(spark)
    parts = stream.parts(spark)
    with pytest.raises(InvalidRequest, match="do not fit") as refused:
        begin_narrowing(parts.sealer.rewriter, parts.stream.lease.hold(), key("uuid"))
    assert refused.value.context["misfits"] == 20
    begin_narrowing(parts.sealer.rewriter, parts.stream.lease.hold(), key("n"))
    stream.land("4", [event(4, 0, n="x")])
    stream.run(spark)
    stream.upkeep(spark)
    assert columns(stream, spark)["n"] is ColumnType.STRING, "a text arrived in the meantime"
    assert NARROWING not in stream.parts(spark).stream.table.read().parameters

    stream.land("5", [event(4, 0, n="7")])
    parts.stream.table.drop_hours([FIRST + 4 * HOUR_S])
    stream.run(spark)
    parts = stream.parts(spark)
    begin_narrowing(parts.sealer.rewriter, parts.stream.lease.hold(), key("n"))
    stream.upkeep(spark)
    assert columns(stream, spark)["n"] is ColumnType.SMALLINT
    count = f"select count(*), sum(n) from {database}.events_flat where n >= 200"
    assert source_sql.rows(count) == [("12", "3600")]
    stream.upkeep(spark)
    stream.land("6", [event(5, n, n=n) for n in range(3)])
    (done,) = stream.run(spark)
    assert (done["misfits"], columns(stream, spark)["n"]) == (0, ColumnType.SMALLINT)
    assert source_sql.rows(count) == [("12", "3600")]
    parts = stream.parts(spark)
    kinds = {
        parts.stream.sampler.footers.read(path).columns["n"].kind
        for each in parts.stream.table.partitions()
        for path in parts.stream.sampler.list_files(str(each.location))
        if each.is_sealed
    }
    assert kinds == {Kind.INTEGER}


def test_numbers_that_arrived_as_text_stay_in_a_narrowed_column_if_their_rows_are_split_again(
    stream: Stream, spark: Any
) -> None:
    """Rows with a misfit of another column are split again whenever their hour is rewritten."""
    asked = rules("epoch", "uuid", "n", "m", misfits_min=20)
    stream.settings = replace(stream.settings, rules=asked, sealing=Sealing(old_files_s=0))
    stream.land("0", [event(0, n, n=f"{n}", m=n) for n in range(40)])
    stream.land("1", [event(1, n, n=f"{n}", m="x" if n == 3 else n) for n in range(5)])
    stream.run(spark)
    parts = stream.parts(spark)
    begin_narrowing(parts.sealer.rewriter, parts.stream.lease.hold(), key("n"))
    stream.upkeep(spark)
    assert columns(stream, spark)["n"] is ColumnType.TINYINT
    stream.land("2", [event(2, n, n=n, m=n) for n in range(5)])
    stream.run(spark)
    stream.upkeep(spark)
    parts = stream.parts(spark)
    assert sum(each.is_sealed for each in parts.stream.table.partitions()) == 2, "all but the last hour"
    found = {row["uuid"]: (row["n"], row["m"]) for row in stream.rows(spark)}
    assert (len(found), found["1-3"], found["1-4"]) == (50, ("3", None), ("4", "4"))


def test_batches_of_like_rows_share_their_compiled_code(stream: Stream, spark: Any) -> None:
    """Clock and watermark differ between them."""
    metrics = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics
    compiled = []
    for hour in range(5):
        stream.land(f"{hour}", [event(hour, n, n=n) for n in range(9)])
        stream.run(spark)
        compiled.append(metrics.METRIC_COMPILATION_TIME().getCount())
    assert compiled[-1] == compiled[-2]
    assert len(stream.rows(spark)) == 45


def test_the_checkpoint_on_a_disk_is_written_without_programs_that_read_links(
    stream: Stream, spark: Any
) -> None:
    """Hadoop's FileContext starts eight of them for every file that it renames."""
    stream.land("a", [event(0, n, n=n) for n in range(9)])
    stream.run(spark)
    setting = "spark.sql.streaming.checkpointFileManagerClass"
    assert spark.conf.get(setting).endswith("FileSystemBasedCheckpointFileManager")


def test_a_replayed_batch_changes_nothing(stream: Stream, spark: Any) -> None:
    stream.land("a", [event(0, n, n=n) for n in range(5)])
    stream.run(spark)
    parts = stream.parts(spark)
    staged = parts.stream.records.staged(0)
    assert staged is not None
    assert staged.done
    before = sorted(map(str, stream.rows(spark)))
    again = replace(staged, done=False)
    parts.stream.records.save_staged(again)
    parts.runner.finish(again)
    assert sorted(map(str, stream.rows(spark))) == before
    assert parts.stream.table.partitions()[0].parameters["tideline.rows"] == "5"
    assert key("n") in parts.stream.table.read().layout.by_key


def test_leftovers_of_tasks_of_a_dead_driver_are_removed(stream: Stream, spark: Any) -> None:
    stream.land("a", [event(0, n) for n in range(5)])
    stream.run(spark)
    staging = Path(stream.settings.location) / ".staging"
    left = staging / f"{stream.parts(spark).stream.query}-0-feedbeef" / "_temporary" / "0"
    left.mkdir(parents=True)
    (staging / "another-stream").mkdir()
    stream.land("b", [event(0, n) for n in range(5, 10)])
    stream.run(spark)
    assert [path.name for path in staging.iterdir()] == ["another-stream"]
    assert len(stream.rows(spark)) == 10


def test_a_batch_whose_files_the_driver_does_not_see_is_not_published(
    stream: Stream, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.land("a", [event(0, n) for n in range(5)])
    with monkeypatch.context() as patched:
        patched.setattr(Stager, "_files", lambda *_: [])
        with pytest.raises(Inconsistent, match="do not contain its rows"):
            stream.run(spark)
    stream.run(spark)
    assert len(stream.rows(spark)) == 5


def test_past_hours_are_backfilled_only_if_the_raw_table_holds_the_same_events(
    stream: Stream, spark: Any
) -> None:
    stream.settings = replace(stream.settings, rules=rules("epoch", "uuid"))
    for hour in range(3):
        events: list[Any] = [event(hour, n, newly={"asked": n}) for n in range(10)]
        stream.land(f"{hour}", [*events, "no json"] if hour == 1 else events)
    stream.run(spark)
    raw = stream.landing
    settings = replace(stream.settings, rules=rules("epoch", "uuid", "newly.asked"), raw_location=str(raw))
    stream = Stream(settings, stream.landing)
    stream.land("3", [event(3, n, newly={"asked": n}) for n in range(10)])
    stream.run(spark)
    assert sum(row["newly/asked"] is not None for row in stream.rows(spark)) == 10

    (raw / "extra.json").write_text(f'{{"epoch":{FIRST + HOUR_S},"uuid":"only in the raw table"}}\n')
    parts = stream.parts(spark)
    hours = range(FIRST, FIRST + 4 * HOUR_S, HOUR_S)
    done = backfill(parts.sealer.rewriter, parts.stream.lease.hold(), hours)
    assert [(each.hour, each.is_done) for each in done] == [
        (hours[0], True),
        (hours[1], False),
        (hours[2], True),
    ]
    rows = stream.rows(spark)
    assert sum(row["newly/asked"] is not None for row in rows) == 30
    assert len(rows) == 41


def test_without_renames_files_are_copied_according_to_the_staged_record(stream: Stream, spark: Any) -> None:
    stream.settings = replace(stream.settings, publishing=Publishing.MANIFEST)
    stream.land("a", [event(0, n, n=n) for n in range(10)])
    stream.run(spark)
    parts = stream.parts(spark)
    staged = parts.stream.records.staged(0)
    assert staged is not None
    move = staged.moves[0]
    copy_file(spark, move.target, move.source)
    parts.stream.records.save_staged(replace(staged, done=False))
    parts.runner.finish(replace(staged, done=False))
    left = parts.storage.list(move.source.rpartition("/")[0])
    assert not left, "a crash between copy and removal left both: the copy counts"
    assert len(stream.rows(spark)) == 10


def test_a_slot_without_values_in_retained_files_is_given_to_another_key(
    stream: Stream, spark: Any, source_sql: Session, database: str
) -> None:
    places = []
    for asked, hours, more in (
        ("old", range(-40, -38), {"old": "gone"}),
        ("n", range(2), {"old": "nobody asks"}),
        ("fresh", range(2, 4), {"fresh": "new", "old": "nobody asks"}),
    ):
        kept_short = rules("epoch", "uuid", "n", asked, retention_days=1, empty_days=1)
        stream.settings = replace(stream.settings, rules=kept_short)
        for hour in hours:
            stream.land(f"{hour}", [event(hour, n, n=n, **more) for n in range(10)])
        stream.run(spark)
        places.append(list(columns(stream, spark)))
    before, _, after = places
    assert (before.index("old"), len(before)) == (after.index("fresh"), len(after))
    assert "old" not in after
    assert {row["fresh"] for row in stream.rows(spark) if row["hour"] >= FIRST + 2 * HOUR_S} == {"new"}
    counts = f"select count(*), count(fresh), min(fresh), max(fresh) from {database}.events_flat"
    assert source_sql.rows(counts) == [("40", "20", "new", "new")]
    assert len(stream.versions(spark)) == 4, "the directories of the hours that were dropped are gone"
