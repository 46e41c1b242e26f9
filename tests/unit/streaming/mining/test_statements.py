from __future__ import annotations

import logging

import pytest

from streaming.mining.model import Form, Parser
from tests.builders.keylog.mining import mined, named, reasons


SEED = """
CREATE TEMPORARY FUNCTION event_parser AS 'com.booking.hive.udtf.EventParser';

create table mydb.sample_raw AS
SELECT  event.epoch,
        response.body_parameters,
        response.experiment,
        response.language
FROM default.raw_events as event
LATERAL VIEW event_parser( event.json,
        'http.body_parameters',
        'action.experiment',
        'action.language',
        'action.name'
    ) response
AS
    body_parameters,
    experiment,
    language,
    action_name
WHERE
        yyyy_mm_dd  = '2016-04-18'
    AND hh          = 21
    AND is_frontend = 1
    AND action_name = 'explorer';
"""
U = "(select get_json_object(json, '$.user') u, id from raw_events)"

STATEMENTS = [
    # built-in functions
    ("select get_json_object(json, '$.a.b') from raw_events", ["$.a.b"]),
    ('select GET_JSON_OBJECT(`json`, "$.a") from default.raw_events', ["$.a"]),
    ("select get_json_object(json, '$.http.0') from raw_events", ["$.http.0"]),
    ("select get_json_object(json, '$.a;b') from raw_events", ["$.a;b"]),
    ("select get_json_object(json, '$[\\'x.y\\']') from raw_events", ["$['x.y']"]),
    (
        "select get_json_object(json, '$.a[0].b'), get_json_object(json, '$.l[*].x') from raw_events",
        ["$.a", "$.l"],
    ),
    ("select json_tuple(json, 'a.b', 'c') as (x, y) from raw_events", ["$.c", "$['a.b']"]),
    ("select t.a from raw_events e lateral view json_tuple(e.json, 'a', 'b') t as a, b", ["$.a", "$.b"]),
    ("select a from raw_events lateral view outer json_tuple(json, 'a') t as a", ["$.a"]),
    ("select from_json(json, 'u struct<b:int>').u.b from raw_events", ["$.u.b"]),
    ("select from_json(json, 'u struct<b:int>')['u']['b'] from raw_events", ["$.u.b"]),
    ("select from_json(json, 'userId int').userid from raw_events", ["$.userId"]),
    ("select from_json(json, 'a int, u struct<b:int>') from raw_events", ["$.a", "$.u"]),
    (
        (
            "select variant_get(parse_json(json), '$.a', 'int'), try_variant_get(parse_json(json), '$.b') "
            "from raw_events"
        ),
        ["$.a", "$.b"],
    ),
    # the databricks dialect
    ("select json:a.b[0].c::string, e.json:Foo, json:['x y'] from raw_events e", ["$.Foo", "$.a.b", "$.x y"]),
    ("select parse_json(json):a.b from raw_events", ["$.a.b"]),
    # user-defined functions
    (SEED, ["$.action.experiment", "$.action.language", "$.action.name", "$.http.body_parameters"]),
    ("select event_parser(json, 'a.b', 'c') from raw_events", ["$.a.b", "$.c"]),
    ("select mydb.event_parser(json, 'a.b') from raw_events", ["$.a.b"]),
    ("select my_path(1, json, '$.a.b') from raw_events", ["$.a.b"]),
    # lineage
    (f"select get_json_object(u, '$.id') from {U} x", ["$.user.id"]),
    (f"select get_json_object(x.u, '$.id'), u from {U} x", ["$.user", "$.user.id"]),
    (f"with c as {U} select get_json_object(u, '$.id') from c", ["$.user.id"]),
    (f"with c as {U}, d as (select u as v from c) select get_json_object(d.v, '$.id') from d", ["$.user.id"]),
    (f"with c (w, i) as {U} select get_json_object(w, '$.id') from c", ["$.user.id"]),
    (f"select * from {U} x", ["$.user"]),
    ("select get_json_object(get_json_object(json, '$.user'), '$.id') from raw_events", ["$.user.id"]),
    ("select get_json_object(get_json_object(json, '$.l[0]'), '$.k') from raw_events", ["$.l"]),
    ("with c as (select * from raw_events) select get_json_object(c.json, '$.a') from c", ["$.a"]),
    ("with c as (select json as j from raw_events) select get_json_object(j, '$.a') from c", ["$.a"]),
    (
        "select j.a, j.u.b from (select from_json(json, 'a int, u struct<b:int>') j from raw_events) x",
        ["$.a", "$.u.b"],
    ),
    (
        "select j.* from (select from_json(json, 'a int, u struct<b:int>') j from raw_events) x",
        ["$.a", "$.u"],
    ),
    (
        "select get_json_object(a, '$.x') from raw_events lateral view json_tuple(json, 'a') t as a",
        ["$.a.x"],
    ),
    (
        (
            "select get_json_object(x.v, '$.c') from (select get_json_object(json, '$.a') v from raw_events "
            "union all select get_json_object(doc, '$.b') from web.clicks) x"
        ),
        ["$.a.c", "web.clicks $.b.c"],
    ),
    (
        "create temporary view v as select json j from raw_events; select get_json_object(j, '$.a') from v",
        ["$.a"],
    ),
    # positions of a call
    (
        (
            "select 1 from raw_events where get_json_object(json, '$.a') = 1 group by get_json_object(json, "
            "'$.b')"
        ),
        ["$.a", "$.b"],
    ),
    (
        (
            "select count(distinct get_json_object(json, '$.a')) over (partition by get_json_object(json, "
            "'$.b')) from raw_events"
        ),
        ["$.a", "$.b"],
    ),
    (
        (
            "select case when get_json_object(json, '$.a') > 1 then 1 end from raw_events order by "
            "get_json_object(json, '$.b')"
        ),
        ["$.a", "$.b"],
    ),
    (
        (
            "select get_json_object(e.json, '$.a') from raw_events e join raw_events f on "
            "get_json_object(f.json, '$.b') = e.id"
        ),
        ["$.a", "$.b"],
    ),
    (
        (
            "select 1 from t where exists (select 1 from raw_events e where get_json_object(e.json, '$.a') = "
            "t.id)"
        ),
        ["$.a"],
    ),
    ("select transform(get_json_object(json, '$.a')) using 'perl x.pl' as (b) from raw_events", ["$.a"]),
    (
        "select /*+ mapjoin(e) */ get_json_object(json, '$.a') from raw_events e tablesample (10 rows)",
        ["$.a"],
    ),
    (
        (
            "from raw_events insert overwrite table x select get_json_object(json, '$.a') "
            "insert overwrite table y select get_json_object(raw_events.json, '$.b') where "
            "get_json_object(json, '$.c') = 1"
        ),
        ["$.a", "$.b", "$.c"],
    ),
    (
        (
            "from raw_events e lateral view json_tuple(e.json, 'a') t as a insert overwrite table x select "
            "get_json_object(t.a, '$.x')"
        ),
        ["$.a.x"],
    ),
    ("insert into x select get_json_object(json, '$.a') from raw_events", ["$.a"]),
    (
        (
            "merge into t using (select json, id from raw_events) s on t.id = s.id when matched then update "
            "set x = get_json_object(s.json, '$.x')"
        ),
        ["$.x"],
    ),
    (
        (
            "select g from (select get_json_object(json, '$.g') g from raw_events group by 1 grouping sets "
            "((g))) q"
        ),
        ["$.g"],
    ),
    (
        "from raw_events |> where get_json_object(json, '$.a') = 1 |> select get_json_object(json, '$.b')",
        ["$.a", "$.b"],
    ),
    # which table a column belongs to
    ("select get_json_object(json, '$.a') from spark_catalog.default.raw_events", ["$.a"]),
    ("use web; select get_json_object(doc, '$.a') from clicks", ["web.clicks $.a"]),
    (
        (
            "select get_json_object(e.json, '$.a'), get_json_object(c.doc, '$.b'), get_json_object(o.json, "
            "'$.no') from raw_events e join web.clicks c join other o"
        ),
        ["$.a", "web.clicks $.b"],
    ),
    ("select get_json_object(meta, '$.no'), get_json_object(json, '$.a') from raw_events", ["$.a"]),
    (
        "select '-- get_json_object(json, ''$.no'')', id from raw_events /* get_json_object(json, '$.no') */",
        [],
    ),
]
NOBODYS = [
    "select get_json_object(json, '$.a') from iceberg.default.raw_events",
    "select get_json_object(json, '$.a') from other.raw_events",
    "select get_json_object(doc, '$.a') from clicks",
    "select get_json_object(json, '$.a') from (select json from other) raw_events",
    "with raw_events as (select json from other) select get_json_object(json, '$.a') from raw_events",
    "select count(*) from raw_events",
]
UNRESOLVED = [
    ("select get_json_object(json, concat('$.', x)) from raw_events", {"path-not-literal": 1}),
    ("select get_json_object(json, '$.${hiveconf:key}') from raw_events", {"variable": 1}),
    ("select get_json_object(json, '$..') from raw_events", {"bad-path": 1}),
    ("select get_json_object(json, 'a.b') from raw_events", {"bad-path": 1}),
    ("select get_json_object(json, '$') from raw_events", {"whole-document": 1}),
    ("select json from raw_events", {"whole-document": 1}),
    ("select *, json from raw_events where id = 1", {"whole-document": 2}),
    ("select regexp_extract(json, '\"a\":(.)', 1) from raw_events", {"whole-document": 1}),
    ("select get_json_object(json, '$.a') from raw_view", {"view": 1}),
    ("select get_json_object(json, '$.a') from raw_events e, raw_events f", {"ambiguous": 1}),
    (
        (
            "select get_json_object(item, '$.id') from raw_events lateral view explode(split(id, ',')) t as "
            "item where json is null"
        ),
        {"expression": 1, "whole-document": 1},
    ),
]


@pytest.mark.parametrize(("text", "keys"), STATEMENTS)
def test_a_statement_requests_the_keys_that_it_extracts_from_a_raw_column(text: str, keys: list[str]) -> None:
    found = mined(text)
    assert named(found) == sorted(keys), found
    assert found.parser in {Parser.HIVE, Parser.DATABRICKS}


@pytest.mark.parametrize("text", NOBODYS)
def test_a_call_on_a_column_of_another_table_requests_nothing(text: str) -> None:
    assert (named(mined(text)), reasons(mined(text))) == ([], {})


@pytest.mark.parametrize(("text", "expected"), UNRESOLVED)
def test_uses_that_cannot_be_followed_are_counted_and_give_no_key(
    text: str, expected: dict[str, int]
) -> None:
    assert (named(mined(text)), reasons(mined(text))) == ([], expected)


def test_a_name_without_database_belongs_to_the_current_one() -> None:
    text = "select get_json_object(doc, '$.a') from clicks"
    assert named(mined(text, database="web")) == ["web.clicks $.a"]
    assert named(mined(text, database="default")) == []


def test_extraction_from_an_array_requests_the_array() -> None:
    found = mined(
        "select get_json_object(item, '$.id') from raw_events "
        "lateral view explode(from_json(get_json_object(json, '$.items'), 'array<string>')) t as item"
    )
    assert (named(found), reasons(found)) == (["$.items"], {"expression": 1})


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('select json_extract_scalar("json", \'$.a["b"]\') from hive.default.raw_events', ["$.a.b"]),
        ("select json_extract(json_parse(e.json), '$.a') from raw_events e", ["$.a"]),
        ("select json_query(json, 'lax $.a') from raw_events", ["$.a"]),
        ("select json_extract_scalar(json, '$.it''s') from raw_events", ["$.it's"]),
    ],
)
def test_statements_of_trino_are_read_in_its_dialect(text: str, keys: list[str]) -> None:
    found = mined(text, form=Form.TRINO)
    assert (named(found), found.parser) == (keys, Parser.TRINO)


def test_hundreds_of_unions_are_walked_without_exhausting_the_stack() -> None:
    text = " union all ".join(
        f"select get_json_object(json, '$.k{at}') x from raw_events" for at in range(900)
    )
    assert len(mined(text).keys) == 900


def test_warnings_of_the_parser_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        mined("explain select get_json_object(json, '$.a\"b') from raw_events")
    assert caplog.records == []
