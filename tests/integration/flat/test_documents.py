"""Several JSON documents in one record or line: none vanishes."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from state.columns.slots import RESCUED
from state.columns.types import ColumnType
from state.errors import ConfigError
from streaming.settings import Documents
from streaming.split.plain_rows import separate_documents
from streaming.split.split_plan import MALFORMED, TRAILING
from streaming.split.splitter import REQUIRED_CONF, split
from tests.builders.flat.columns import a_key
from tests.builders.flat.json_rows import layout_of
from tests.builders.flat.streams import Stream, rules


START = int(time.time()) // 3_600 * 3_600 - 3 * 3_600
NESTED = '{"a":1,"b":{"c":[{"d":"}{\\"]"},{}]}}'
ALONE = [
    '{"a":1}',
    ' {"a" : 1} \r\n',
    '{"a":1},',
    '{"a":1}\x1e',
    "{}",
    NESTED,
    '{"a":"x"}',
    "{'a':'}{'}",
    '{"a":1,"a":2}',
    '{"a":' + "[" * 200 + "]" * 200 + "}",
    '{"a":"' + "x" * 50_000 + '"}',
    '{"a":1e400}',
    '{"a":"\\ud800"}',
    '{"a":"a\tb"}',
]
FOLLOWED = [
    '{"a":1}{"a":2}',
    '{"a":1} {"a":2}\n{"a":3}',
    '{"a":1},{"a":2}',
    '{"a":1}\x1e{"a":2}',
    "{}{}",
    f"{NESTED}{NESTED}",
    "{'a':'}{'}{'a':2}",
    '{"a":"x"}{"a":2}',
    '{"a":1}[2]',
    '{"a":1}"x"',
    '{"a":1}}',
    '{"a":1}]',
    '{"a":1}],"tideline: end of the row"',
    '{"a":1},"b":2}',
    '{"a":1},"tideline: end of the row"',
    '{"a":1},"tideline: end of the row"}',
    '{"a":1}garbage',
    '{"a":1}{"a":',
    '{"a":1}\x00',
]
MALFORMED_ROWS = ["", "[1]", '[{"a":1},{"a":2}]', '"x"{"a":1}', '{"a":1', '{"a"}{"a":1}', "no json"]


@pytest.fixture
def session(spark: Any) -> Any:
    made = spark.newSession()
    for setting, value in REQUIRED_CONF.items():
        made.conf.set(setting, value)
    return made


@pytest.mark.parametrize("parser", [True, False])
def test_text_behind_the_first_document_is_counted_and_kept(session: Any, parser: bool) -> None:
    if not parser:
        session.conf.set("spark.sql.catalog.tideline_parsers", "")
    texts = [*ALONE, *FOLLOWED, *MALFORMED_ROWS]
    frame = session.createDataFrame([(text,) for text in texts], "value string")
    rows = split(frame, layout_of({a_key("a"): ColumnType.STRING}), keep=["value"]).collect()
    assert [row["value"] for row in rows if row[TRAILING]] == FOLLOWED
    assert [row["value"] for row in rows if row[MALFORMED]] == MALFORMED_ROWS
    assert [row[RESCUED] for row in rows if row[RESCUED] is not None] == [*FOLLOWED, *MALFORMED_ROWS]
    first = {row["value"]: row["c1"] for row in rows}
    assert first['{"a":1}{"a":2}'] == "1", "as get_json_object returns it"


def test_documents_are_separated_wherever_one_object_follows_another(session: Any) -> None:
    parts = [
        ['{"a":1}', '{"a":2}'],
        [NESTED, NESTED, "{}"],
        ["{'a':'}{'}", '{"b":"\'"}'],
        ['{"é":"東😀"}', '{"a":"' + "\\\\" + '"}', '{"a":"\\""}'],
        ['{"a":1}', "garbage {}"],
        ['{"a":1}', "[1]"],
        ['{"a":1}', '{"a":'],
        ['{"a":1}', '{"a":"x}{'],
        ["{]", '{"a":2}'],
        ['{"a":"' + "x" * 50_000 + '"}', '{"a":' + "[" * 2_000 + "]" * 2_000 + "}"],
    ]
    joined = [between.join(documents) for documents in parts for between in ("", " ", "\n", ",", ", \x1e")]
    frame = session.createDataFrame(
        [(text, 7) for text in [*joined, *ALONE, *MALFORMED_ROWS]], "value string, n int"
    )
    rows = separate_documents(frame, Documents.MANY).collect()
    expected = [document for documents in parts for _ in range(5) for document in documents]
    unchanged = [*ALONE, *(text for text in MALFORMED_ROWS if text != '{"a"}{"a":1}')]
    found = [row["value"] for row in rows]
    assert found[: len(expected)] == expected
    assert sorted(found[len(expected) :]) == sorted([*unchanged, '{"a"}', '{"a":1}'])
    assert {row["n"] for row in rows} == {7}
    assert separate_documents(frame, Documents.ONE) is frame
    session.conf.set("spark.sql.catalog.tideline_parsers", "")
    with pytest.raises(ConfigError, match="cannot be split"):
        separate_documents(frame, Documents.MANY)


def test_each_document_is_a_row_with_the_option_and_otherwise_its_text_is_kept_and_counted(
    spark: Any, tmp_path: Path, database: str
) -> None:
    spark.sql(f"CREATE DATABASE {database}")
    events = [json.dumps({"epoch": START + n * 60, "uuid": f"u{n}"}) for n in range(9)]
    lines = ["".join(events[:4]), events[4], " ".join(events[5:8]), events[8]]
    stream = Stream.of_directory(tmp_path / "one", database, rules("epoch", "uuid"))
    stream.land("a", lines)
    (told,) = stream.run(spark)
    assert (told["rows"], told["trailing"], told["rescued"]) == (4, 2, 2)
    rows = {row["uuid"]: row[RESCUED] for row in stream.rows(spark)}
    assert rows == {"u0": lines[0], "u4": None, "u5": lines[2], "u8": None}
    assert sum(seen.trailing for seen in stream.parts(spark).stream.hour_counts.load().hours.values()) == 2

    many = Stream.of_directory(tmp_path / "many", database, rules("epoch", "uuid"), table="many")
    many.settings = replace(many.settings, source=replace(many.settings.source, documents=Documents.MANY))
    many.land("a", lines)
    (told,) = many.run(spark)
    assert (told["rows"], told["trailing"], told["rescued"]) == (9, 0, 0)
    assert told["bytes"] == sum(map(len, events))
    assert sorted(row["uuid"] for row in many.rows(spark)) == [f"u{n}" for n in range(9)]
