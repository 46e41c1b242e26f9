"""The parser of plain rows returns what Spark's reader returns, or leaves the row to it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from dev.fixtures.json_events import lines
from dev.plain_rows_jar import compile_sources, read_jar
from dev.stack.downloads.npm import WEBHOOKS, fetch_package
from state.columns.paths import KeyPath
from state.columns.slots import RESCUED
from state.columns.types import ColumnType
from streaming.split.plain_rows import CONF, parse_plain_rows
from streaming.split.splitter import REQUIRED_CONF, split
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
    (
        '{"longer_than_nine":{"q" : '
        '"\\u00e9\\n\\/"},"a":-12,"b":{"c":"\\u6771\\ud83d\\ude00\\"","x":[[],{}]},"e":false}'
    ),
    '{"a":null,"b":{"c":1e5,"d":"é東😀"},"longer_than_eight":-0.0,"longer_than_nine":"","f":{"g":null},"z":1E-3}',
]


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    made = spark.newSession()
    for setting, value in REQUIRED_CONF.items():
        made.conf.set(setting, value)
    return made


def count_plain(
    session: Any,
    texts: Sequence[str | None],
    types: Mapping[KeyPath, ColumnType],
    *,
    beside: Sequence[KeyPath] = (),
    numeric_strings: Collection[KeyPath] = (),
) -> int:
    """Compare the rows that the parser accepts with those of Spark's reader, and return how many they are.

    ``beside`` are keys whose texts are compared, too.
    """
    layout = layout_of(types)
    named = {f"text{number}": key for number, key in enumerate(beside)}
    plain = parse_plain_rows(session, "`value`", layout.slots, named, numeric_strings)
    results = []
    for used, is_plain in ((session, f"{plain} IS NOT NULL"), (without_parser(session), "TRUE")):
        frame = used.createDataFrame([(text,) for text in texts], "value string").repartition(2)
        rows = split(frame, layout, texts=named, keep=["value"], numeric_strings=numeric_strings)
        row = "to_json(struct(* EXCEPT (value)), map('ignoreNullFields', 'false')) AS row"
        results.append(rows.selectExpr("value", f"{is_plain} AS plain", row).collect())
    with_parser, by_reader = results
    read = {row["value"]: row["row"] for row in by_reader}
    plain_rows = [row for row in with_parser if row["plain"]]
    different = [(*row, read[row["value"]]) for row in plain_rows if row["row"] != read[row["value"]]]
    assert not different, different[:3]
    assert all(json.loads(row["row"])[RESCUED] is None for row in plain_rows)
    return len(plain_rows)


def without_parser(session: Any) -> Any:
    """Return a session with the same settings, but without the parser."""
    made = session.newSession()
    for setting in CONF:
        made.conf.set(setting, "")
    for setting, value in REQUIRED_CONF.items():
        made.conf.set(setting, value)
    return made


@pytest.mark.parametrize("column_type", TYPES, ids=lambda each: each.name)
def test_odd_values_are_read_as_spark_reads_them_or_not_at_all(session: Any, column_type: ColumnType) -> None:
    types = {a_key("a"): column_type}
    texts = [*(f'{{"a":{value}}}' for value in VALUES), *DOCUMENTS, *EXCEPTIONS]
    assert count_plain(session, texts, types) >= 3


def test_mutated_rows_are_read_as_spark_reads_them_or_not_at_all(session: Any) -> None:
    texts = sorted(set(mutated(NESTED_ROWS, 6_000, seed=11)))
    assert 300 < count_plain(session, texts, NESTED) < len(texts)


def test_mutated_events_are_read_as_spark_reads_them_or_not_at_all(session: Any) -> None:
    texts = list(lines(300, seed=5))
    types = dict(list(types_seen(texts).items())[:150])
    assert count_plain(session, list(mutated(texts, 3_000, seed=12)), types) > 500


def test_limits_of_sparks_reader_are_left_to_it(session: Any) -> None:
    types = {a_key("a"): ColumnType.STRING, a_key("n"): ColumnType.DOUBLE}
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
    assert count_plain(session, [*extreme, '{"a":"x","n":1e15}'], types) == 1


def test_names_are_compared_after_their_escapes_are_read(session: Any) -> None:
    types = {KeyPath((name,)): ColumnType.STRING for name in [*ODD_NAMES, "longer than eight é"]}
    texts = [
        json.dumps({name: number for number, name in enumerate(ODD_NAMES)}),
        json.dumps({name: number for number, name in enumerate(ODD_NAMES)}, ensure_ascii=False),
        '{"\\u006conger than eight é":1,"longer than eight e":2,"longer than nine é":3}',
        '{"\\u0061":1,"a":2}',
    ]
    assert count_plain(session, texts, types) >= 3


def test_generated_events_are_plain(session: Any) -> None:
    """The cost in docs/SPLITTING.md rests on this: only rows that are not plain need Spark's reader."""
    texts = list(lines(2_000, seed=6))
    types = types_seen(texts)
    assert count_plain(session, texts, types) > 0.95 * len(texts)


def test_github_events_are_plain(session: Any) -> None:
    with start_or_skip("corpus"):
        texts = list(webhooks(fetch_package(WEBHOOKS)))
    types = types_seen(texts)
    types = dict(list(types.items())[:: len(types) // 120])
    assert count_plain(session, texts, types) > 0.8 * len(texts)


def test_a_session_without_the_parser_splits_alike(session: Any) -> None:
    without = without_parser(session)
    texts = [(text,) for text in [*NESTED_ROWS, *mutated(NESTED_ROWS, 200, seed=13)]]
    results = []
    for used in (session, without):
        rows = split(used.createDataFrame(texts, "value string"), layout_of(NESTED), keep=["value"])
        assert ("ParserFunction" in rows._jdf.queryExecution().analyzed().toString()) == (used is session)
        results.append(sorted(map(str, rows.collect())))
    assert results[0] == results[1]


def test_the_jar_is_compiled_from_its_sources(session: Any) -> None:
    assert read_jar() == compile_sources(session.sparkContext._gateway)


def test_keys_within_other_keys_are_plain(session: Any) -> None:
    types = {
        a_key("a"): ColumnType.STRING,
        a_key("a.b"): ColumnType.INT,
        a_key("a.b.c"): ColumnType.STRING,
        a_key("d.e"): ColumnType.DOUBLE,
    }
    values = [
        "1",
        '"x"',
        "true",
        "null",
        "[1,{}]",
        "{}",
        '{"b":1}',
        '{"b":{"c":2},"e":1.5}',
        '{"b":null,"e":-0}',
    ]
    texts = [f'{{"a":{a},"d":{d}}}' for a in values for d in values]
    misfits = sum(
        "{" in text.partition('"d"')[0][5:] and '"b":{' in text.partition(',"d"')[0] for text in texts
    )
    assert count_plain(session, texts, types) == len(texts) - misfits


def test_quoted_numbers_are_plain_if_the_rules_allow_them(session: Any) -> None:
    written = ["7", "-7", "0", "1.5", "-0.0", "1.0E10", "32767", "9007199254740991", "1e400"]
    odd = [
        "007",
        "+7",
        " 7",
        "-0",
        "1.50",
        "1e5",
        "",
        "x",
        "7 ",
        "9007199254740992",
        "NaN",
        "1E400",
        "\\u0037",
    ]
    for column_type in (each for each in TYPES if each.is_numeric):
        types = {a_key("a"): column_type}
        texts = [f'{{"a":"{value}"}}' for value in [*written, *odd]] + [
            f'{{"a":{value}}}' for value in written
        ]
        assert count_plain(session, texts, types) < 20
        found = count_plain(session, texts, types, beside=[a_key("a")], numeric_strings=[a_key("a")])
        assert found >= (12 if column_type is ColumnType.DOUBLE else 6)


def test_texts_beside_the_slots_are_those_of_sparks_reader(session: Any) -> None:
    beside = [a_key("t"), a_key("a"), a_key("d"), a_key("a.x")]
    types = {a_key("a"): ColumnType.STRING, a_key("d"): ColumnType.DOUBLE}
    texts = [
        f'{{"t":{t},"a":{a},"d":{d}}}' for t in VALUES[:40] for a, d in (("1", "7"), ('{"x":"é\\n"}', "1.50"))
    ]
    assert count_plain(session, texts, types, beside=beside) > 20
