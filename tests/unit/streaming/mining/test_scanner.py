from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.mining.aliases import Aliases
from streaming.mining.json_functions import functions_by_name
from streaming.mining.model import MinedKeys, MiningRules, Parser, Unresolved
from streaming.mining.raw_tables import RawTables
from streaming.mining.scanner import Scanner
from streaming.mining.tokens import TokenList
from tests.builders.keylog.mining import FUNCTIONS, RULES, mined, named, reasons


CALLS = functions_by_name(FUNCTIONS)


def scanned(text: str) -> MinedKeys:
    tokens = TokenList(text, CALLS, is_trino=False)
    return Scanner(tokens, Aliases(tokens, RawTables(RULES, CALLS), "default"), CALLS).run(Parser.SCANNER)


NO_PARSER_TAKES = [
    (
        (
            "FROM (FROM raw_events MAP json, get_json_object(json, '$.m') USING 'perl x' AS a) z REDUCE a "
            "USING 'y'"
        ),
        ["$.m"],
    ),
    (
        (
            "insert overwrite table x partition (a='b') if not exists select get_json_object(e.json, "
            "'$.a.b') from raw_events e"
        ),
        ["$.a.b"],
    ),
    ("explain select get_json_object(json, '$.a') from raw_events", ["$.a"]),
    (
        (
            "select e.x from raw_events e where get_json_object(e.json, '$.a') = 1 and "
            "get_json_object(e.json, '$.trunc"
        ),
        ["$.a"],
    ),
    ("insert into x select get_json_object(json, '$.a') from raw_events where ((", ["$.a"]),
    (
        "begin declare x int; select json:a.b ?:: string, get_json_object(json, '$.q') from raw_events; end",
        ["$.a.b", "$.q"],
    ),
    (
        (
            "explain select get_json_object(u, '$.id') from (select get_json_object(json, '$.user') u from "
            "raw_events) x"
        ),
        ["$.user.id"],
    ),
    (
        "explain select a from raw_events lateral view event_parser(json, 'a.b', 'c') t as a, b",
        ["$.a.b", "$.c"],
    ),
    ("explain select get_json_object(cast((json) as string), '$.a') from default.raw_events", ["$.a"]),
    ("explain select from_json(json, 'u struct<b:int>').u.b from raw_events", ["$.u.b"]),
]


@pytest.mark.parametrize(("text", "keys"), NO_PARSER_TAKES)
def test_texts_that_no_parser_accepts_are_scanned(text: str, keys: list[str]) -> None:
    found = mined(text)
    assert (named(found), found.parser) == (keys, Parser.SCANNER)


@pytest.mark.parametrize(
    "text",
    [
        (
            "df := sql(\"select get_json_object(u, '$.id') from (select get_json_object(json, '$.user') u "
            "from "
            'raw_events) x")'
        ),
        (
            'val d = sql("""with c as (select get_json_object(json, \'$.user\') u from raw_events) select '
            'get_json_object(u, \'$.id\') from c""")'
        ),
        (
            "my $q = 'select get_json_object(get_json_object(json, \\'$.user\\'), \\'$.id\\') from "
            "raw_events'; "
            "run($q) {"
        ),
        "spark.sql(\"select get_json_object(get_json_object(json, '$.user'), '$.id') from raw_events where",
    ],
)
def test_statements_in_the_strings_of_a_program_are_read(text: str) -> None:
    found = mined(text)
    assert (named(found), found.parser) == (["$.user.id"], Parser.SCANNER)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("explain select get_json_object(x, '$.a') from raw_events", {"unknown-column": 1}),
        ("explain select get_json_object(doc, '$.a') from raw_events", {"unknown-column": 1}),
        ("explain select get_json_object(lower(json), '$.a') from raw_events", {"expression": 1}),
        ("explain select get_json_object(json, '$.' || x) from raw_events", {"path-not-literal": 1}),
        ("explain select get_json_object(json, '$.${x}') from raw_events", {"variable": 1}),
        ("explain select get_json_object(json, '$.a') from raw_view", {"view": 1}),
        ("select get_json_object(json, '$.a from raw_events", {"unknown-column": 1}),
        (
            (
                "explain select get_json_object(v, '$.x') from (select json_tuple(json, 'a') v from "
                "raw_events) a, (select json_tuple(json, 'b') v from raw_events) b"
            ),
            {"ambiguous": 1},
        ),
    ],
)
def test_the_scanner_never_guesses(text: str, expected: dict[str, int]) -> None:
    found = scanned(text)
    assert reasons(found) == expected
    assert set(named(found)) <= {"$.a", "$.b"}


NAMES = st.sampled_from(["a", "b", "user", "http", "Foo", "x1"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda names: "$." + ".".join(names))
JSON = st.sampled_from(["json", "e.json", "`json`", "E.JSON", "(json)", "cast(json as string)"])


@st.composite
def calls(draw: st.DrawFn, document: str) -> str:
    path = draw(PATHS)
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return f"from_json({document}, 'z int').{path[2:]}"
    if kind == 1:
        return f"get_json_object(get_json_object({document}, '{path}'), '{draw(PATHS)}')"
    if kind == 2:
        return f"event_parser({document}, '{path[2:]}', '{draw(PATHS)[2:]}')"
    return f"get_json_object({document}, '{path}')"


@st.composite
def statements(draw: st.DrawFn) -> str:
    raw = draw(st.sampled_from(["raw_events e", "default.raw_events as e", "RAW_EVENTS E"]))
    inner = draw(calls(draw(JSON)))
    condition = f"{draw(calls(draw(JSON)))} = '{draw(NAMES)}' -- get_json_object(json, '$.no')\n"
    shape = draw(st.integers(0, 3))
    if shape == 0:
        return f"select {inner} as v, id from {raw} where {condition}"
    if shape == 1:
        outer = f"get_json_object(s.v, '{draw(PATHS)}')" if "event_parser" not in inner else "s.v"
        return f"select {outer} from (select {inner} v from {raw} where {condition}) s"
    if shape == 2:
        names = [draw(PATHS)[2:] for _ in range(2)]
        outer = draw(st.sampled_from(["p", f"get_json_object(t.p, '{draw(PATHS)}')"]))
        return (
            f"select {outer} from {raw} lateral view event_parser(e.json, '{names[0]}', '{names[1]}') t "
            f"as p, q where {condition}"
        )
    return f"insert overwrite table o select {inner} from {raw} join other x on x.id = e.id and {condition}"


@settings(max_examples=100, deadline=None)
@given(statements())
def test_scanner_and_parser_agree(text: str) -> None:
    parsed = mined(text)
    assert parsed.parser is Parser.HIVE
    assert named(scanned(text)) == named(parsed)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="get_json_object(),'$.a\"`\\[]:;- raw_eventsfromselect\n", max_size=200))
def test_every_text_has_an_answer(text: str) -> None:
    for keys in (mined(text + " from raw_events json"), scanned(text)):
        assert keys.parser is not None


@pytest.mark.parametrize(
    "text",
    [
        "select get_json_object(" * 20_000 + " from raw_events json",
        "select json from raw_events where " + "(" * 100_000,
        "select json from raw_events where " + "not " * 100_000 + "true",
        "select json from raw_events where " + "case when a then " * 20_000,
        "from raw_events json " + "'" * 100_001,
        "from raw_events json " + "\\'" * 100_000,
        "from raw_events json " + "/*" * 100_000,
        "from raw_events json " + "a.b:" * 20_000,
        "from raw_events e select " + "get_json_object(json,'$.a') as x, " * 3_000,
        "from raw_events e select " + "get_json_object(x,'$.a') as x, " * 3_000,
    ],
    ids=range(10),
)
def test_a_hostile_text_costs_little_and_raises_no_error(text: str) -> None:
    began_s = time.process_time()
    mined(text)
    assert time.process_time() - began_s < 10


def test_a_text_beyond_the_limit_is_counted_and_not_read() -> None:
    rules = MiningRules(RULES.raw_tables, text_chars=1_000)
    from streaming.mining.miner import Miner
    from tests.builders.keylog.mining import query

    mark, found = Miner(rules).mine(
        query("select get_json_object(json, '$.a') from raw_events" + " " * 1_000)
    )
    assert (mark, found.keys, found.unresolved) == ("", (), {Unresolved.SIZE: 1})
