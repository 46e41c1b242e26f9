"""From raw JSON to a flat table, through batches, sealing and widening, on a live Hive 4 metastore."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from state.columns.types import ColumnType
from tests.builders.flat_streams import Stream, key, rules


if TYPE_CHECKING:
    from dev.stack.endpoints import ClusterEndpoints
    from dev.stack.sql import Session
    from handlers.metastore import Metastore


HOUR_S = 3_600
NOW_HOUR = int(time.time()) // HOUR_S * HOUR_S
FIRST = NOW_HOUR - 10 * HOUR_S


def event(hour: int, second: int, **more: Any) -> dict[str, Any]:
    return {"epoch": FIRST + hour * HOUR_S + second, "uuid": f"{hour}-{second}", **more}


@pytest.fixture
def base(source: ClusterEndpoints, database: str) -> Path:
    return Path(source.external) / database


@pytest.fixture
def stream(base: Path, database: str, metastore: Metastore, source: ClusterEndpoints) -> Stream:
    return Stream.of_directory(
        base, database, rules("epoch", "uuid", "action.name", "n", "misspelled"), source.metastore
    )


def columns(stream: Stream, spark: Any) -> dict[str, ColumnType]:
    layout = stream.parts(spark).stream.table.read().layout
    return {slot.name: slot.type for slot in layout.slots}


def test_files_become_a_table_that_hive_reads(
    stream: Stream, spark: Any, source_sql: Session, database: str
) -> None:
    stream.land("a", [event(0, n, action={"name": f"a{n % 2}"}, n=n) for n in range(40)])
    stream.run(spark)
    stream.land("b", [event(1, n, n=1_000 * n) for n in range(40)])
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
    assert [len(parts.stream.looking.files(str(each.location))) for each in partitions] == [1, 1, 1]
    assert sorted(map(str, stream.rows(spark))) == sorted(map(str, before))
    left = [path.name for path in Path(stream.settings.location).glob("*/*/v*")]
    assert sorted(left) == ["v1", "v2", "v3"], "hour 0 was opened again by a late row, and sealed again"


def test_a_number_column_becomes_text_by_rewriting_and_nothing_is_lost(stream: Stream, spark: Any) -> None:
    stream.land("a", [event(0, n, n=n) for n in range(10)])
    stream.run(spark)
    assert columns(stream, spark)["n"] is ColumnType.TINYINT
    stream.land("b", [event(1, n, n="x" if n == 3 else "007" if n == 4 else n) for n in range(10)])
    stream.run(spark)
    rescued = [row["_rescued"] for row in stream.rows(spark) if row["_rescued"]]
    assert len(rescued) == 2
    stream.land("c", [event(2, n, n=n) for n in range(10)])
    stream.run(spark)
    stream.land("d", [event(3, n, n=n) for n in range(2)])
    stream.run(spark)
    stream.upkeep(spark)
    assert columns(stream, spark)["n"] is ColumnType.STRING
    rows = stream.rows(spark)
    assert [row["_rescued"] for row in rows if row["_rescued"]] == []
    values = {row["uuid"]: row["n"] for row in rows}
    assert values["1-3"] == "x"
    assert values["1-4"] == "007"
    assert values["0-7"] == "7"
    assert len(rows) == len(values) == 32


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
