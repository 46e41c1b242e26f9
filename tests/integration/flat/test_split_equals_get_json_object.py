"""The columns of a flat table hold what ``get_json_object`` returns for the raw row, except for the cases
listed here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from dev.fixtures.json_events import CONFLICTS, lines
from dev.stack.downloads.npm import WEBHOOKS, fetch_package
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.columns.sniffing import sniff
from state.columns.types import ColumnType
from state.errors import ConfigError
from streaming.split.splitter import REQUIRED_CONF, split
from tests.builders.components.availability import start_or_skip
from tests.builders.flat.columns import a_key
from tests.builders.flat.json_rows import Told, layout_of, mutated, told, webhooks


A = a_key("a")
TYPES = [each for each in ColumnType if each is not ColumnType.NULL]

SCALARS = [
    r"1.10",
    r"1.0",
    r"-0",
    r"-0.0",
    r"1e5",
    r"1E5",
    r"1.5e3",
    r"1e-7",
    r"1E400",
    r"-1E400",
    r"1e22",
    r"0.1000000000000000055",
    r"123456789.123456789",
    r"100.00",
    r"3.0e0",
    r"0",
    r"7",
    r"-7",
    r"127",
    r"128",
    r"-128",
    r"-129",
    r"255",
    r"32767",
    r"32768",
    r"-32768",
    r"-32769",
    r"2147483647",
    r"2147483648",
    r"-2147483648",
    r"-2147483649",
    r"9007199254740991",
    r"9007199254740992",
    r"9007199254740993",
    r"-9007199254740993",
    r"9223372036854775807",
    r"-9223372036854775808",
    r"123456789012345678901",
    r"9223372036854775808",
    r"12345678901234567890.5",
    r"NaN",
    r"Infinity",
    r"-Infinity",
    r"+1",
    r"00012",
    r"012",
    r".5",
    r"5.",
    r"0x10",
    r"true",
    r"True",
    r"null",
    r"nul",
    r'""',
    r'"x"',
    r'"7"',
    r'"007"',
    r'"+7"',
    r'"-0"',
    r'"1e5"',
    r'"1.5"',
    r'"NaN"',
    r'"Infinity"',
    r'"a\"b"',
    r'"a\\b"',
    r'"a\/b"',
    r'"\u0041"',
    r'"\u00e9"',
    r'"é"',
    r'"\u6771"',
    r'"\ud83d\ude00"',
    r'"😀"',
    r'"\n\t\r"',
    r'"\u0000"',
    r'"\u0001"',
    r'"\x41"',
    r"'x'",
    r'"true"',
    r'"null"',
    r'"1.10"',
    r"{}",
    r"[]",
    r'{"b":1.10}',
    r'{"b":1e5}',
    r'{"b":1E400}',
    r'{"b":NaN}',
    r'{"b":123456789012345678901}',
    r'{"b":0.1000000000000000055}',
    r'{"b":"\u00e9\u6771"}',
    r'{"b":"\ud83d\ude00"}',
    r'{"b":"a\/b"}',
    r'{"b":"a\"b"}',
    r'{"b":"\n\u0001\u007f"}',
    r'{"b":null}',
    r'{"z":1,"a":2}',
    r'["a\u0041"]',
    r"[[1],[2]]",
    r"{b:1}",
    r"{'b':1}",
    r"[1,]",
    r'{"b":1,}',
    r'{"b":"\ud800"}',
    r'{"b":1,"b":2}',
]
VALUES = [
    *SCALARS,
    '" x "',
    '" 7 "',
    '"a\tb"',
    '{ "b" : 1 , "c" : [ 1 , 2 ] }',
    '[1, 2.50, "x", null, {"q" : 1}]',
]
DOCUMENTS = [
    '{"x":1}',
    '{"a":1}xyz',
    '{"a":1}{"a":2}',
    '{"a":1,}',
    '{"a":1,"x":',
    '{"a":"xy',
    '{"x":',
    '{"x":bad,"a":1}',
    '{"a":1,"x":bad}',
    '{"x":NaN,"a":1}',
    '{"x":1E400,"a":1}',
    '  {"a":1}  ',
    '\t\r\n{"a":1}',
    "",
    "   ",
    "null",
    '[{"a":1}]',
    '[{"a":1},{"a":2}]',
    "5",
    '"text"',
    '"{"',
    "hello",
    '\ufeff{"a":1}',
    '{/*c*/"a":1}',
    "{'a':1}",
    "{a:1}",
    '{"\\u0061":1}',
    '{"A":1}',
    '{"A":1,"a":2}',
    '{"x":"\x01","a":1}',
    '{"a":"\x7f\x1f"}',
    "{}",
    '{"a":null,"a":2}',
    '{"_doubt":"x","a":1}',
    None,
]
EXCEPTIONS = {
    '{"a":1,"a":2}': "2",
    '{"a":1,"a":null}': None,
    '{"a":{"b":1},"a":{"b":2}}': '{"b":2}',
    '{"a":"\\ud800"}': "?",
    '{"a":"\\udc00x"}': "?x",
    '{"a":"\\ud800\\u0041"}': "?A",
}
"""All there are: of two members of one name the last counts, and half a surrogate pair is a question mark
(raw: first, NULL)."""
ODD_NAMES = [
    "fooBar",
    "foobar",
    "FOOBAR",
    "a.b",
    "a/b",
    "a`b",
    "``",
    "a'b",
    'a"b',
    "a b",
    " a",
    "${env:HOME}",
    "${spark.app.name}",
    "$",
    "*",
    "[0]",
    "a[0]",
    "a\\b",
    "\\",
    "a\nb",
    "a\x00b",
    "ключ",
    "東京",
    "😀",
    "é",
    "e\u0301",
    "a,b",
    "a:b",
    "?(@)",
    "%s",
    "_doubt",
    "_malformed",
    "value",
    "1",
    "-",
]


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    """A separate session with the settings that splitting needs."""
    made = spark.newSession()
    for setting, value in REQUIRED_CONF.items():
        made.conf.set(setting, value)
    return made


def assert_equal(rows: Sequence[Told], types: Mapping[KeyPath, ColumnType]) -> None:
    different = [(row.text, row.differences(types)) for row in rows if row.differences(types)]
    assert not different, different[:5]


def types_seen(texts: Sequence[str], keys: Sequence[KeyPath] | None = None) -> dict[KeyPath, ColumnType]:
    """The type of every key in the texts by a table's rules, most frequent keys first."""
    rules = FlatRules(depth_max=32)
    seen = sniff(texts, rules, keys).keys
    ordered = sorted(seen, key=lambda key: (-seen[key].nonnull, key))
    return {key: rules.type_of(key, seen[key].evidence) for key in ordered}


@pytest.mark.parametrize("column_type", TYPES, ids=lambda each: each.name)
def test_odd_values_and_documents_are_kept_or_rescued(session: Any, column_type: ColumnType) -> None:
    types = {A: column_type}
    rows = told(session, [*(f'{{"a":{value}}}' for value in VALUES), *DOCUMENTS], types)
    assert_equal(rows, types)
    for row in rows:
        lost = row.flat[A] is None and row.raw[A] is not None
        assert row.rescued == (row.text is not None and (row.malformed or row.trailing or lost)), row


def test_the_exceptions_are_these_and_no_others(session: Any) -> None:
    rows = told(session, list(EXCEPTIONS), {A: ColumnType.STRING})
    assert {row.text: row.flat[A] for row in rows} == EXCEPTIONS
    assert all(row.flat[A] != row.raw[A] and not row.malformed for row in rows)


@pytest.mark.parametrize("column_type", TYPES, ids=lambda each: each.name)
def test_of_members_of_one_name_the_last_counts_even_if_it_does_not_fit(
    session: Any, column_type: ColumnType
) -> None:
    """Spark's reader alone keeps an earlier value if the last one does not fit."""
    firsts = ["1", "1.5", "true", "9007199254740992", "-0"]
    lasts = ["2", "-128", "300", "3000000000", "9007199254740993", "2.5", "false", "null", "[]", '{"b":3}']
    lasts += ['"x"', '" 1 "', '"1"', "1E400"]
    pairs = [(first, last) for first in firsts for last in lasts]
    last_only = told(session, [f'{{"a":{last}}}' for _, last in pairs], {A: column_type})
    both = told(session, [f'{{"a":{first},"a":{last}}}' for first, last in pairs], {A: column_type})
    thrice = told(session, [f'{{"a":{first},"a":7,"a":{last}}}' for first, last in pairs], {A: column_type})
    for expected, *found in zip(last_only, both, thrice, strict=True):
        for row in found:
            same = (row.flat[A], row.rescued) == (expected.flat[A], expected.rescued)
            assert same or _reads_alike(row.flat[A], expected.raw[A]), (row, expected)


def _reads_alike(value: str | None, text: str | None) -> bool:
    """Whether a number before a quoted number is the same number."""
    return value is not None and text is not None and value in {text, f"{text}.0"}


@pytest.mark.parametrize(
    ("column_type", "fitting", "misfits"),
    [
        (ColumnType.TINYINT, ("127", "-128", "-0"), ("128", "-129", "255", "1.0", '"7"', "true")),
        (ColumnType.SMALLINT, ("32767", "-32768"), ("32768", "1e2", '""', "[]")),
        (ColumnType.INT, ("2147483647",), ("2147483648", '" 7 "')),
        (ColumnType.BIGINT, ("9223372036854775807",), ("9223372036854775808", "{}")),
        (
            ColumnType.DOUBLE,
            ("1.10", "1e22", "7", "9007199254740992"),
            ("9007199254740993", "1E400", '"1.5"'),
        ),
        (ColumnType.BOOLEAN, ("true", "false"), ("0", '"true"')),
        (ColumnType.STRING, ("1", "1E400", "true", '""', "{}"), ()),
    ],
    ids=lambda each: each.name if isinstance(each, ColumnType) else "",
)
def test_a_value_that_fits_its_type_is_never_rescued(
    session: Any, column_type: ColumnType, fitting: tuple[str, ...], misfits: tuple[str, ...]
) -> None:
    rows = told(session, [f'{{"a":{value}}}' for value in (*fitting, *misfits)], {A: column_type})
    assert [row.rescued for row in rows] == [False] * len(fitting) + [True] * len(misfits)
    assert [row.flat[A] is None for row in rows] == [False] * len(fitting) + [True] * len(misfits)


def test_anything_but_one_json_object_is_malformed_and_nothing_else_is(session: Any) -> None:
    rows = told(session, DOCUMENTS, {A: ColumnType.INT, a_key("b.c"): ColumnType.STRING})
    malformed = [row.text for row in rows if row.malformed]
    assert None in malformed
    for row in rows:
        raw_is_object = row.text is not None and row.raw[A] is not None
        assert not (row.malformed and raw_is_object), row
    assert {'"{"', "5", "", "   ", "null", '[{"a":1}]', '{"a":1,}', '\ufeff{"a":1}'} <= set(malformed)
    assert not {"{}", '{"x":1}', '{"a":1}xyz', "{'a':1}"} & set(malformed)


def test_quoted_numbers_fit_if_the_rules_allow_it_and_json_writes_them_alike(session: Any) -> None:
    quoted = (
        "7",
        "-7",
        "0",
        "007",
        "+7",
        " 7",
        "7 ",
        "-0",
        "1e5",
        "1.5",
        "9007199254740993",
        "NaN",
        "Infinity",
        "x",
        "",
    )
    texts = [*(json.dumps({"a": each}) for each in quoted), '{"a":7}', '{"a":true}', '{"a":1E400}']
    for column_type, kept in (
        (ColumnType.INT, {'"7"', '"-7"', '"0"', "7"}),
        (ColumnType.DOUBLE, {'"7"', '"-7"', '"0"', '"1.5"', "7"}),
    ):
        rows = told(session, texts, {A: column_type}, numeric_strings={A})
        assert_equal(rows, {A: column_type})
        assert {str(row.text)[5:-1].strip() for row in rows if not row.rescued} == kept


@pytest.mark.long
def test_generated_events_are_equal_row_for_row(session: Any) -> None:
    texts = list(lines(2_000))
    types = types_seen(texts)
    assert {ColumnType.TINYINT, ColumnType.DOUBLE, ColumnType.BIGINT, ColumnType.STRING} <= set(
        types.values()
    )
    assert {KeyPath(members) for members in CONFLICTS} <= set(types)
    chosen = dict(list(types.items())[:90])
    rows = told(session, texts, chosen)
    assert_equal(rows, chosen)
    assert not any(row.malformed or row.rescued for row in rows)


def test_generated_events_in_columns_that_are_too_narrow_are_equal_or_rescued(session: Any) -> None:
    texts = list(lines(2_000, seed=2))
    narrow = [each for each in TYPES if each is not ColumnType.STRING]
    keys = list(types_seen(texts))[:40]
    types = {key: narrow[number % len(narrow)] for number, key in enumerate(keys)}
    rows = told(session, texts, types)
    assert_equal(rows, types)
    assert any(row.rescued for row in rows)


def test_the_github_events_are_equal_row_for_row(session: Any) -> None:
    with start_or_skip("corpus"):
        texts = list(webhooks(fetch_package(WEBHOOKS)))
    assert len(texts) > 300
    every = types_seen(texts)
    assert len(every) > 3_000
    types = dict(list(every.items())[:: len(every) // 120])
    rows = told(session, texts, types)
    assert_equal(rows, types)
    assert not any(row.malformed or row.rescued for row in rows)


def test_broken_rows_are_malformed_for_both_or_for_none(session: Any) -> None:
    whole = [
        '{"a":1,"bb":{"c":"x","dd":[1,2,{"e":null}]},"fff":1.5,"gggg":true}',
        '{"bb":false,"a":-12,"fff":"é\\u6771\\n","gggg":{"h":{}}}',
    ]
    types = {
        A: ColumnType.INT,
        a_key("bb.c"): ColumnType.STRING,
        a_key("bb.dd"): ColumnType.STRING,
        a_key("bb"): ColumnType.STRING,
        a_key("fff"): ColumnType.DOUBLE,
        a_key("gggg"): ColumnType.BOOLEAN,
        a_key("gggg.h"): ColumnType.STRING,
    }
    rows = told(session, sorted(set(mutated(whole, 4_000, seed=3))), types)
    assert_equal(rows, types)
    assert 500 < sum(row.malformed for row in rows) < len(rows)


def test_any_member_name_gets_its_own_column(session: Any) -> None:
    document = {name: f"v{number}" for number, name in enumerate(ODD_NAMES)}
    nested = {"o": {name: {"x.y": f"w{number}"} for number, name in enumerate(ODD_NAMES)}}
    keys = [
        *(KeyPath((name,)) for name in ODD_NAMES),
        *(KeyPath(("o", name, "x.y")) for name in ODD_NAMES),
        *(KeyPath(("a", "b")), KeyPath(("A.B",)), KeyPath(("Ключ",))),
    ]
    types = dict.fromkeys(keys, ColumnType.STRING)
    (row,) = told(session, [json.dumps(document | nested)], types)
    found = [row.flat[key] for key in keys]
    count = len(ODD_NAMES)
    assert found == [*(f"v{n}" for n in range(count)), *(f"w{n}" for n in range(count)), None, None, None]
    assert_equal([row], types)


def test_a_key_and_its_ancestors_can_both_be_columns(session: Any) -> None:
    types = {
        a_key("o"): ColumnType.STRING,
        a_key("o.p"): ColumnType.STRING,
        a_key("o.p.q"): ColumnType.INT,
        a_key("o.p.q.r"): ColumnType.BIGINT,
        a_key("z"): ColumnType.INT,
    }
    texts = [
        '{"o":{"p":{"q":5}},"z":1}',
        '{"o":{"p":{"q":{"r":6}}},"z":"1"}',
        '{"o":{"p":{"q":"x"}}}',
        '{"o":[{"p":1}],"z":2}',
        '{"o":false}',
        '{"o":"{\\"p\\":1}"}',
        '{"o":null,"z":null}',
    ]
    rows = told(session, texts, types)
    assert_equal(rows, types)
    assert [row.rescued for row in rows] == [False, True, True, False, False, False, False]


def test_hostile_rows_affect_only_themselves(session: Any) -> None:
    deep = 100_000
    hostile = [
        json.dumps({f"k{number}": number for number in range(100_000)} | {"a": 1}),
        json.dumps({"a": "x" * 1_000_000}),
        json.dumps({"x": "y" * 1_000_000, "a": 3}),
        '{"a":' + "[" * deep + "]" * deep + "}",
        '{"x":' + '{"a":' * deep + "1" + "}" * deep + ',"a":1}',
        '{"a":' + "9" * 100_000 + "}",
        '{"x":' + "9" * 100_000 + ',"a":5}',
        '{"a":1' + "0" * 300 + "}",
        '{"' + "n" * 60_000 + '":1,"a":6}',
        '{"a":"\x00\ufffe\uffff"}',
        "[" * deep,
        "{" * deep,
        '{"a":1}',
    ]
    for column_type in (ColumnType.INT, ColumnType.STRING):
        rows = told(session, hostile, {A: column_type, a_key("x.a"): ColumnType.STRING})
        assert_equal(rows, {A: column_type})
        assert rows[-1].flat[A] == "1"
        assert not rows[-1].rescued


def test_invalid_utf_8_affects_only_its_row(session: Any) -> None:
    frame = session.createDataFrame(
        [(b'{"a":"\xff\xfe","b":1}',), (b'{"a":"x","b":2}',), (b"\xff",)], "raw binary"
    )
    rows = split(
        frame.selectExpr("CAST(raw AS STRING) AS value"),
        layout_of({A: ColumnType.STRING, a_key("b"): ColumnType.INT}),
    ).collect()
    assert [(row["_malformed"], row["c2"]) for row in rows] == [(False, 1), (False, 2), (True, None)]


@pytest.mark.parametrize("count", [99, 300, pytest.param(1_400, marks=pytest.mark.long)])
def test_hundreds_of_columns_are_equal_too(session: Any, count: int) -> None:
    members = {f"k{number}": number * 37 for number in range(count)}
    types = {KeyPath((name,)): TYPES[number % len(TYPES)] for number, name in enumerate(members)}
    texts = [
        json.dumps(members),
        json.dumps(dict.fromkeys(members, "text")),
        json.dumps(dict.fromkeys(members, 1.5)),
        "{",
    ]
    frame = session.createDataFrame([(text,) for text in texts], "value string").repartition(1)
    rows = {row["value"]: row for row in split(frame, layout_of(types), keep=["value"]).collect()}
    assert rows["{"]["_malformed"]
    last = TYPES[(count - 1) % len(TYPES)]
    for text in texts[:-1]:
        raw = json.loads(text)[f"k{count - 1}"]
        fits = last is ColumnType.STRING or (last is ColumnType.DOUBLE and not isinstance(raw, str))
        fits = fits or (isinstance(raw, int) and last is ColumnType.BIGINT)
        value = rows[text][f"c{count}"]
        assert (str(value) == str(raw) or value == raw) if fits else (value is None or value == raw)
        assert rows[text]["_rescued"] is not None


def test_slots_without_a_key_are_null_and_every_slot_is_present(session: Any) -> None:
    from dataclasses import replace

    from state.columns.slots import SlotState

    layout = layout_of({A: ColumnType.INT, a_key("b"): ColumnType.STRING, a_key("c"): ColumnType.DOUBLE})
    layout = layout.with_slot(replace(layout.slots[2], state=SlotState.EMPTY))
    frame = session.createDataFrame([('{"a":1,"b":"x","c":2}',)], "value string")
    rows = split(frame, layout, texts={"time": A})
    assert rows.columns == ["_malformed", "_trailing", "time", "_rescued", "c1", "c2", "c3"]
    assert rows.dtypes[-2:] == [("c2", "string"), ("c3", "double")]
    assert [tuple(row) for row in rows.collect()] == [(False, False, "1", None, 1, None, 2.0)]


def test_a_row_is_parsed_once_and_again_as_text_only_if_it_is_doubtful(session: Any) -> None:
    frame = session.createDataFrame([("{}",)], "value string")
    types = {a_key(f"k{number}"): TYPES[number % len(TYPES)] for number in range(120)}
    rows = split(frame, layout_of(types), texts={"time": a_key("time")})
    for asked in (rows, rows.filter("NOT _malformed AND time > '2016'")):
        plan = asked._jdf.queryExecution().executedPlan().toString()
        assert plan.count("from_json(") == 2


def test_a_session_with_other_settings_is_refused(session: Any) -> None:
    other = session.newSession()
    frame = other.createDataFrame([("{}",)], "value string")
    with pytest.raises(ConfigError, match="cannot split"):
        split(frame, layout_of({}))
