"""A day of simulated hours: keys appear, vanish,
change their type and are misspelled; some events are hostile.

``get_json_object`` on the raw rows is the reference: at the end every value of every requested key is in its
column, or its row's text is in ``_rescued``, and no event is missing or duplicated.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from state.columns.types import ColumnType
from streaming.keylog.log import KeyLog
from streaming.keylog.records import KeyRequest
from streaming.keylog.table_snapshots import read_changes, read_snapshot
from streaming.settings import Limits
from tests.builders.flat.columns import spark_json_path
from tests.builders.flat.streams import Stream, key, rules


HOUR_S = 3_600
DAY = 24
START = int(time.time()) // HOUR_S * HOUR_S - (DAY + 1) * HOUR_S
ALWAYS = [
    "epoch",
    "uuid",
    "n",
    "price",
    "mixed",
    "flag",
    "action.name",
    "only.early",
    "only.late",
    "big",
    "deep",
]
ASKED = ["user.id", "user.Id", "odd.a/b", "misspeled.key"]


def an_event(hour: int, n: int, chance: random.Random) -> dict[str, Any]:
    event: dict[str, Any] = {
        "epoch": START + hour * HOUR_S + n * 60,
        "uuid": f"{hour}-{n}",
        "n": chance.randrange(10 ** (1 + hour // 3)),
        "price": chance.choice([1.5, 2, 1e-7, 12345678901.25, None]),
        "flag": chance.choice([True, False]),
        "action": {"name": chance.choice(["explorer", "résumé", '"quoted"', ""]), "unasked": n},
        "user": {"id": chance.randrange(1_000), "Id": str(n)},
        "odd": {"a/b": n},
        "mixed": n if hour < 8 else n + 0.5 if hour < 14 else f"text {n}",
    }
    if hour < 6:
        event["only"] = {"early": n}
    if hour >= 12:
        event["only"] = {"late": [n, {"x": None}]}
    return event


def hostile(hour: int) -> list[str]:
    """Raw lines, with one kind of problem per hour."""
    top = f'"epoch":{START + hour * HOUR_S},"uuid":"h{hour}"'
    flood = ",".join(f'"flood {n}":{n}' for n in range(500))
    megabyte, depth_bomb = "x" * 1_000_000, "[" * 1_500 + "]" * 1_500
    kinds = [
        f'{{{top},"n":1e400,"price":1e400}}',
        f'{{{top},"n":123456789012345678901234567890}}',
        f'{{{top},"n":"007","price":"1.5"}}',
        f'{{{top},"n":-0,"price":-0.0,"flag":0}}',
        f'{{{top},"n":[1,2],"action":"a scalar","user":[]}}',
        f'{{{top},"n":NaN}}',
        f'{{{top},"n":9007199254740993,"price":9007199254740993}}',
        f"{{{top},{flood}}}",
        f'{{{top},"big":"{megabyte}"}}',
        f'{{{top},"deep":{depth_bomb}}}',
        f'{{{top},"unasked":"\\ud800","n":5}}',
        f'{{{top},"unasked":1,"unasked":2,"N":7}}',
        f'{{{top},"n":6}} trailing',
        f'{{{top},"n":',
        "\x00\x01",
        "[1,2,3]",
    ]
    return [kinds[hour % len(kinds)]]


@pytest.fixture
def stream(elsewhere: dict[str, Any], tmp_path: Path, spark: Any, database: str) -> Stream:
    spark.sql(f"CREATE DATABASE {database}")
    url = f"sqlite:///{tmp_path}/keys.db"
    now_s = int(time.time())
    with KeyLog.open(url) as log:
        asks = [KeyRequest("raw.events", key(text), f"u{n}", now_s, "f") for n, text in enumerate(ASKED)]
        log.record(asks, source="test", position="1")
    return Stream.of_directory(
        tmp_path / "flat",
        database,
        rules(*ALWAYS, probation_values=10),
        keylog_url=url,
        raw_table="raw.events",
        limits=Limits(record_bytes=2_000_000),
        **elsewhere,
    )


@pytest.mark.long
def test_after_a_day_every_value_is_in_its_column_or_rescued(stream: Stream, spark: Any) -> None:
    chance = random.Random(6)  # noqa: S311 - seeded randomness makes data, not secrets
    raw: list[str] = []
    for hour in range(DAY):
        lines = [json.dumps(an_event(hour, n, chance), ensure_ascii=False) for n in range(12)] + hostile(hour)
        if hour == 20:
            late = an_event(3, 40, chance)
            lines += [json.dumps(late), '{"uuid":"oversize","big":"' + "x" * 2_500_000 + '"}']
        raw += lines
        stream.land(f"{hour:02}", lines)
    told = stream.run(spark)
    stream.upkeep(spark)

    assert [each["batchId"] for each in told] == list(range(DAY))
    table = stream.parts(spark).stream.table
    layout = table.read().layout
    types = {slot.key: slot.type for slot in layout.live}
    assert key("misspeled.key") not in types
    assert types[key("mixed")] is ColumnType.STRING
    assert types[key("user.id")] is ColumnType.SMALLINT
    assert {slot.name for slot in layout.live if slot.key in {key("user.id"), key("user.Id")}} == {
        "user/id",
        "user/id~1",
    }
    assert not any("flood" in slot.name for slot in layout.slots)
    compare(stream, spark, raw)
    letters = stream.letters()
    assert letters["oversize"] == 1
    assert letters["malformed"] >= 4
    seen = read_snapshot(KeyLog.open(stream.settings.keylog_url), stream.settings.name)
    assert seen is not None
    whys = {each["key"]: each["verdict"] for each in seen.document["keys"]}
    assert whys["$.misspeled.key"] == "unseen"
    kinds = {
        change.kind for change in read_changes(KeyLog.open(stream.settings.keylog_url), stream.settings.name)
    }
    assert {"append", "widen"} <= kinds


def compare(stream: Stream, spark: Any, raw: list[str]) -> None:
    """Compare the table with ``get_json_object`` on the raw lines."""
    from pyspark.sql import functions

    layout = stream.parts(spark).stream.table.read().layout
    slots = {
        slot.name: (spark_json_path(slot.key) or "", slot.type)
        for slot in layout.live
        if slot.key is not None
    }
    truth = spark.createDataFrame([(line,) for line in raw], "value string").select(
        "value", *[functions.get_json_object("value", path).alias(name) for name, (path, _) in slots.items()]
    )
    lines = truth.collect()
    expected = {row["uuid"]: row for row in lines if row["uuid"] not in {None, "oversize"}}
    rows = stream.rows(spark)
    found = {row["uuid"]: row for row in rows if row["uuid"] is not None}
    assert len(found) == sum(row["uuid"] is not None for row in rows), "no event is there twice"
    assert set(found) == set(expected)
    malformed = sorted(row["_rescued"] for row in rows if row["uuid"] is None)
    assert malformed == sorted(row["value"] for row in lines if row["uuid"] is None)
    for uuid, row in found.items():
        for name, (_, column_type) in slots.items():
            value, wanted = row[name], expected[uuid][name]
            if value is None and wanted is not None:
                assert row["_rescued"] == expected[uuid]["value"], (uuid, name, wanted)
            elif value != wanted:
                # A DOUBLE does not distinguish 2 from 2.0; neither does the text that it becomes by
                # promotion.
                assert column_type is ColumnType.DOUBLE or name in {"mixed", "price"}, (
                    uuid,
                    name,
                    value,
                    wanted,
                )
                assert float(value) == float(wanted), (uuid, name, value, wanted)
