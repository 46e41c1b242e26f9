"""The parser of plain rows returns what Spark's reader returns, or leaves the row to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dev.fixtures.json_events import lines
from dev.plain_rows_jar import compile_sources, read_jar
from dev.stack.downloads.npm import WEBHOOKS, fetch_package
from state.columns.paths import KeyPath
from state.columns.types import ColumnType
from streaming.split.parse_schema import Parse, plan_parses
from streaming.split.plain_rows import CONF, parse_plain_rows
from streaming.split.splitter import JSON_OPTIONS, REQUIRED_CONF, split
from tests.builders.components.availability import start_or_skip
from tests.builders.flat.columns import a_key
from tests.builders.flat.json_rows import layout_of, mutated, webhooks
from tests.integration.flat.test_split_equals_get_json_object import (
    DOCUMENTS,
    EXCEPTIONS,
    ODD_NAMES,
    VALUES,
    types_seen,
)


if TYPE_CHECKING:
    from collections.abc import Sequence


TYPES = [each for each in ColumnType if each is not ColumnType.NULL]
NESTED = {
    a_key("a"): ColumnType.INT,
    a_key("b.c"): ColumnType.STRING,
    a_key("b.d"): ColumnType.STRING,
    a_key("longer_than_eight"): ColumnType.DOUBLE,
    a_key("longer_than_nine"): ColumnType.STRING,
    a_key("e"): ColumnType.BOOLEAN,
    a_key("f.g.h"): ColumnType.TINYINT,
}
NESTED_ROWS = [
    '{"a":1,"b":{"c":"x","d":[1,2.50,{"e":null}]},"longer_than_eight":1.5,"e":true,"f":{"g":{"h":12}}}',
    '{"longer_than_nine":{"q" : "\\u00e9\\n\\/"},"a":-12,"b":{"c":"\\u6771\\ud83d\\ude00\\"","x":[[],{}]},"e":false}',
    '{"a":null,"b":{"c":1e5,"d":"é東😀"},"longer_than_eight":-0.0,"longer_than_nine":"","f":{"g":null},"z":1E-3}',
]


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    made = spark.newSession()
    for setting, value in REQUIRED_CONF.items():
        made.conf.set(setting, value)
    return made


def count_plain(session: Any, texts: Sequence[str | None], parse: Parse) -> int:
    """Compare the parser with Spark's reader on every row, and return how many rows are plain."""
    from pyspark.sql import functions

    plain = parse_plain_rows(session, "`value`", parse)
    assert plain is not None
    options = JSON_OPTIONS | {"columnNameOfCorruptRecord": parse.doubt}
    frame = session.createDataFrame([(text,) for text in texts], "value string").repartition(2)
    read = frame.select(
        "value",
        plain.alias("plain"),
        functions.from_json("value", parse.typed_schema(), options).alias("read"),
    )
    written = [
        functions.to_json(name, {"ignoreNullFields": "false"}).alias(name) for name in ("plain", "read")
    ]
    rows = [row for row in read.select("value", *written).collect() if row["plain"] is not None]
    different = [tuple(row) for row in rows if row["plain"] != row["read"]]
    assert not different, different[:3]
    return len(rows)


@pytest.mark.parametrize("column_type", TYPES, ids=lambda each: each.name)
def test_odd_values_are_read_as_spark_reads_them_or_not_at_all(session: Any, column_type: ColumnType) -> None:
    (parse,) = plan_parses({a_key("a"): column_type})
    texts = [*(f'{{"a":{value}}}' for value in VALUES), *DOCUMENTS, *EXCEPTIONS]
    assert count_plain(session, texts, parse) >= 3


def test_mutated_rows_are_read_as_spark_reads_them_or_not_at_all(session: Any) -> None:
    (parse,) = plan_parses(NESTED)
    texts = sorted(set(mutated(NESTED_ROWS, 6_000, seed=11)))
    assert 300 < count_plain(session, texts, parse) < len(texts)


def test_mutated_events_are_read_as_spark_reads_them_or_not_at_all(session: Any) -> None:
    texts = list(lines(300, seed=5))
    parse, *_deeper = plan_parses(dict(list(types_seen(texts).items())[:150]))
    assert count_plain(session, list(mutated(texts, 3_000, seed=12)), parse) > 500


def test_limits_of_sparks_reader_are_left_to_it(session: Any) -> None:
    (parse,) = plan_parses({a_key("a"): ColumnType.STRING, a_key("n"): ColumnType.DOUBLE})
    extreme = [
        f'{{"a":"{"x" * 1_000_000}"}}',
        f'{{"{"n" * 60_000}":1,"a":6}}',
        f'{{"x":{{"{"n" * 60_000}":1}},"a":6}}',
        f'{{"a":{"9" * 2_000}}}',
        f'{{"x":{"9" * 2_000},"a":5}}',
        f'{{"a":{"[" * 2_000}{"]" * 2_000}}}',
        f'{{"x":{"[" * 2_000}{"]" * 2_000},"a":1}}',
        '{"a":1e400}',
        '{"a":"\x01"}',
    ]
    assert count_plain(session, [*extreme, '{"a":"x","n":1e22}'], parse) == 1


def test_names_are_compared_after_their_escapes_are_read(session: Any) -> None:
    (parse,) = plan_parses(
        {KeyPath((name,)): ColumnType.STRING for name in [*ODD_NAMES, "longer than eight é"]}
    )
    texts = [
        json.dumps({name: number for number, name in enumerate(ODD_NAMES)}),
        json.dumps({name: number for number, name in enumerate(ODD_NAMES)}, ensure_ascii=False),
        '{"\\u006conger than eight é":1,"longer than eight e":2,"longer than nine é":3}',
        '{"\\u0061":1,"a":2}',
    ]
    assert count_plain(session, texts, parse) >= 3


def test_generated_events_are_plain(session: Any) -> None:
    """The cost in docs/SPLITTING.md rests on this: only rows that are not plain need Spark's reader."""
    texts = list(lines(2_000, seed=6))
    parse, *_deeper = plan_parses(types_seen(texts))
    assert count_plain(session, texts, parse) > 0.95 * len(texts)


def test_github_events_are_plain(session: Any) -> None:
    with start_or_skip("corpus"):
        texts = list(webhooks(fetch_package(WEBHOOKS)))
    types = types_seen(texts)
    parse, *_deeper = plan_parses(dict(list(types.items())[:: len(types) // 120]))
    assert count_plain(session, texts, parse) > 0.8 * len(texts)


def test_a_session_without_the_parser_splits_alike(session: Any) -> None:
    without = session.newSession()
    for setting in CONF:
        without.conf.set(setting, "")
    for setting, value in REQUIRED_CONF.items():
        without.conf.set(setting, value)
    texts = [(text,) for text in [*NESTED_ROWS, *mutated(NESTED_ROWS, 200, seed=13)]]
    results = []
    for used in (session, without):
        rows = split(used.createDataFrame(texts, "value string"), layout_of(NESTED), keep=["value"])
        assert ("ParserFunction" in rows._jdf.queryExecution().analyzed().toString()) == (used is session)
        results.append(sorted(map(str, rows.collect())))
    assert results[0] == results[1]


def test_the_jar_is_compiled_from_its_sources(session: Any) -> None:
    assert read_jar() == compile_sources(session.sparkContext._gateway)
