"""Forms of other dialects than Hive's and Spark's, and other ways to quote: the same keys, or a reason why
not."""

from __future__ import annotations

import pytest

from streaming.mining.miner import Miner
from streaming.mining.model import Form
from tests.builders.keylog.mining import RULES, mined, named, query, reasons


STATEMENTS = [
    ("select f(json->'a'), g(json -> 'b' ->> 'c') from raw_events", ["$.a", "$.b.c"]),
    ("select if(json->'a' = 'x', 1, json->'b') from raw_events", ["$.a", "$.b"]),
    ("select transform(ids, x -> 'a'), json->>'b' from raw_events", ["$.b"]),
    ("set spark.sql.shuffle.partitions=10; select get_json_object(json,'$.a') from raw_events", ["$.a"]),
    ("select json -> 'a' from web.clicks, raw_events", ["$.a"]),
    ("select doc ->> 'a' from web.clicks", ["web.clicks $.a"]),
    ("select json ->> x from raw_events", ["path-not-literal"]),
    ("select json -> 'a' -> 'b' -> 'c' ->> 'd' from raw_events", ["$.a.b.c.d"]),
    ("select (json -> 'a') ->> 'b' from raw_events", ["$.a.b"]),
    ("select j ->> 'b' from (select json -> 'a' as j from raw_events) x", ["$.a.b"]),
    ("select get_json_object(json ->> 'a', '$.b') from raw_events", ["$.a.b"]),
    ("select coalesce(json->>'a', json->>'b') from raw_events", ["$.a", "$.b"]),
    ("select 1 from raw_events where json->>'a' in ('x','y') and (json->>'n')::int > 5", ["$.a", "$.n"]),
    ("select case when json->'a' is not null then json->'b'->>'c' end from raw_events", ["$.a", "$.b.c"]),
    ("select jsonb_array_elements(json->'items')->>'id' from raw_events", ["$.items", "expression"]),
    ("select get_json_object(json, '$.a') from IDENTIFIER('default.raw_events')", ["$.a"]),
    ("select get_json_object(json, '$.a') from IDENTIFIER(:t)", []),
    ("select get_json_object(json, :p) from raw_events", ["path-not-literal"]),
    ("select json:items[0].id, json:items[*].name, json:a['b']['c'] from raw_events", ["$.a.b.c", "$.items"]),
    ("select to_json(from_json(json, 'a int')) from raw_events", ["$.a"]),
    ("select get_json_object(json, '$.\ta') from raw_events", ["$.a"]),
    ("select JSON_VALUE(json, '$.a') from `proj.default.raw_events`", []),
    ("select json->'user'->>'name' from raw_events", ["$.user.name"]),
    ("select json->>'p13' from raw_events", ["$.p13"]),
    ("select e.json -> 'a' -> 0 ->> 'b' from raw_events e", ["$.a"]),
    ("select json->>'$.a.b' from raw_events", ["$.a.b"]),
    ("select json #>> '{a,b}' from raw_events", ["$.a.b"]),
    ("select json:a from raw_events", ["$.a"]),
    ("select r.json:a from raw_events r", ["$.a"]),
    ("select parse_json(json):a from raw_events", ["$.a"]),
    ("select parse_json(json):a.b::string x from raw_events", ["$.a.b"]),
    ("select json:`a b` from raw_events", ["$.a b"]),
    ("select json:`a b`, id from raw_events", ["$.a b"]),
    ("select json:a:b from raw_events", ["$.a.b"]),
    ("select json:a::int from raw_events where json:b = 'x'", ["$.a", "$.b"]),
    ('select json:"a b"::string from raw_events', ["$.a b"]),
    ("select get_path(parse_json(json), 'a.b') from raw_events", ["$.a.b"]),
    ("select get_path(json, 'a.b[0].c') from raw_events", ["$.a.b"]),
    ("select json_extract_path_text(json, 'a', 'b') from raw_events", ["$.a.b"]),
    ("select `json` from `default.raw_events`", ["whole-document"]),
    ("select get_json_object(json, '$.a') from `default.raw_events`", ["$.a"]),
    ("select get_json_object(json, r'$.a') from raw_events", ["$.a"]),
    ('select get_json_object(json, R"$.a") from raw_events', ["$.a"]),
    ("select get_json_object(json, '$. a') from raw_events", ["$.a"]),
    ("select get_json_object(json, '$.:key') from raw_events", ["$.:key"]),
    ("select get_json_object(json, :path) from raw_events", ["path-not-literal"]),
    ("select get_json_object(json, '$.' || 'a') from raw_events", ["$.a"]),
    ("select get_json_object(json, concat('$.', 'a')) from raw_events", ["$.a"]),
    ("select get_json_object(json, ('$.a')) from raw_events", ["$.a"]),
    ("select json['a']['b'] from raw_events", ["$.a.b"]),
    ("select f.value:id from raw_events, lateral flatten(input => json:items) f", ["$.items"]),
    ("select (json::json)->'a'->>'b' from raw_events", ["$.a.b"]),
    ("select json #>> '{a,0,b}' from raw_events", ["$.a"]),
    ("select get_json_object(json,'$.a') from orc.`/data/raw_events/dt=1`", ["$.a"]),
    ("select get_json_object(json,'$.a') from raw_events version as of 3", ["$.a"]),
    ("select get_json_object(`raw_events`.`json`,'$.a') from `default`.`raw_events`", ["$.a"]),
    ("select get_json_object(`default.raw_events`.json,'$.a') from `default.raw_events`", ["$.a"]),
    ('select get_json_object(json,"$.a") from "default"."raw_events"', ["$.a"]),
    ("select JSONExtractString(json,'a','b') from raw_events", ["$.a.b"]),
    ("select json_extract(json,'$.a','$.b') from raw_events", ["$.a"]),
    ("select json_unquote(json_extract(json,'$.a')) from raw_events", ["$.a"]),
    ("select cast(json_parse(json) as row(a bigint)).a from raw_events", ["$.a"]),
    ("select cast(json_parse(json) as row(a bigint, b varchar)) r from raw_events", ["$.a", "$.b"]),
    ("select t.x from raw_events e, json_table(e.json, '$.a' columns (x int path '$.b')) as t", ["$.a.b"]),
    ("select json_read(json, 'struct<a:int,b:int>').b from raw_events", ["$.b"]),
    ("select get_json_object(json, '$.@timestamp') from raw_events", ["$.@timestamp"]),
    ("select get_json_object(json, '$[\\'$oid\\']') from raw_events", ["$.$oid"]),
    ("select json->>'@type' from raw_events", ["$.@type"]),
    ("select get_json_object(json, '$.a-b.c d') from raw_events", ["$.a-b.c d"]),
    ("select get_json_object(json, '$.100%') from raw_events", ["$.100%"]),
    ("select regexp_extract(json, 'a{2}', 1) from raw_events", ["whole-document"]),
    ("select get_path(json, 'a[\"b c\"].d') from raw_events", ["$.a.b c.d"]),
    ("select json_extract_path_text(json, 'a', '0', 'b') from raw_events", ["$.a.0.b"]),
    ("select json:a.b, json:['c'].d, json:e[0].f from raw_events", ["$.a.b", "$.c.d", "$.e"]),
    ("insert overwrite table t partition (dt='1') select json:a from raw_events", ["$.a"]),
    ("create table x as select e.json:a:b::int as z from raw_events e group by e.json:a:b", ["$.a.b"]),
    ("explain select json:a from raw_events", ["$.a"]),
    ("explain select json->'u'->>'n' from raw_events", ["$.u.n"]),
    ("select transform(array(1), x -> x + 1), get_json_object(json,'$.a') from raw_events", ["$.a"]),
    (
        "select filter(from_json(json:items,'array<struct<id:int>>'), x -> x.id > 1) from raw_events",
        ["$.items"],
    ),
    (
        "select json -> 'a' ->> 'b' as x from raw_events where json ->> 'c' = 'y' group by json -> 'd'",
        ["$.a.b", "$.c", "$.d"],
    ),
    ("select get_json_object(json, N'$.a') from raw_events", ["$.a"]),
    ("select get_json_object(json, E'$.a') from raw_events", ["path-not-literal"]),
    ("select get_json_object(json, $$$.a$$) from raw_events", ["path-not-literal"]),
]
TRINO = [
    ("select json_extract_scalar(json, '$[\"a b\"]') from raw_events", ["$.a b"]),
    ("select json_extract(json, '$.\"a.b\"') from raw_events", ["$['a.b']"]),
    ("select json_value(json, 'strict $.a?(@ > 1)') from raw_events", ["$.a"]),
    ("select cast(json_extract(json, '$.u') as row(id bigint, name varchar)).id from raw_events", ["$.u.id"]),
    (
        (
            "select u.id from raw_events cross join unnest(cast(json_extract(json, '$.items') as "
            "array(row(id bigint)))) as u(id)"
        ),
        ["$.items"],
    ),
    ("select cast(json_parse(json) as map(varchar, varchar))['k'] from raw_events", ["$.k"]),
    ("select element_at(cast(json_parse(json) as map(varchar, varchar)), 'k') from raw_events", ["$.k"]),
    (
        (
            "select t.* from raw_events, json_table(json, 'lax $' columns (id for ordinality, name varchar "
            "path 'lax $.n', userId bigint)) t"
        ),
        ["$.n", "$.userId"],
    ),
    (
        (
            "select * from raw_events left join json_table(raw_events.json, '$.a[*]' columns (x int path "
            "'$.b')) t on true"
        ),
        ["$.a", "whole-document"],
    ),
    ("select cast(json_parse(json) as row(a bigint)).a from raw_events", ["$.a"]),
    ("select cast(json_parse(json) as row(a bigint, u row(b varchar))).u.b from raw_events", ["$.u.b"]),
    ("select cast(json_parse(json) as map(varchar, json))['a'] from raw_events", ["$.a"]),
    ("select json_exists(json, 'lax $.a.b') from raw_events", ["$.a.b"]),
    ("select json_exists(json, 'strict $.a[0]') from raw_events", ["$.a"]),
    ("select json_value(json, 'lax $.a' returning bigint) from raw_events", ["$.a"]),
    ("select json_query(json, 'lax $.a' with array wrapper) from raw_events", ["$.a"]),
    (
        "select t.x from raw_events e, json_table(e.json, 'lax $.a' columns (x int path 'lax $.b')) as t",
        ["$.a.b"],
    ),
    (
        (
            "select t.x, y from raw_events e cross join json_table(e.json, 'lax $' columns (x int path 'lax "
            "$.b', y varchar path 'lax $.c.d')) as t"
        ),
        ["$.b", "$.c.d"],
    ),
    (
        (
            "select t.x from raw_events e, json_table(json, '$.l[*]' columns (x int path '$.b', nested path "
            "'$.k[*]' columns (z int path '$.m'))) t"
        ),
        ["$.l"],
    ),
    (
        (
            "select i from raw_events cross join unnest(cast(json_extract(json,'$.items') as array(json))) "
            "as t(i)"
        ),
        ["$.items"],
    ),
    ("select try(json_extract(json,'$.a')) from raw_events", ["$.a"]),
    ("select json_value(json,'lax $.a' default 'x' on empty error on error) from raw_events", ["$.a"]),
    ("select json_value(json format json,'lax $.\"a b\".c') from raw_events", ["expression"]),
    (
        "select r.a from (select cast(json_parse(json) as row(a bigint, b varchar)) r from raw_events) x",
        ["$.a"],
    ),
]


def keys_and_reasons(text: str, form: Form = Form.SQL) -> list[str]:
    found = mined(text, form=form)
    return sorted([*named(found), *reasons(found)])


@pytest.mark.parametrize(("text", "expected"), STATEMENTS)
def test_a_statement_of_any_dialect_requests_the_keys_that_it_extracts(
    text: str, expected: list[str]
) -> None:
    assert keys_and_reasons(text) == sorted(expected)


@pytest.mark.parametrize(("text", "expected"), TRINO)
def test_a_statement_of_trino_requests_the_keys_that_it_extracts(text: str, expected: list[str]) -> None:
    assert keys_and_reasons(text, Form.TRINO) == sorted(expected)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select json->>'a' from raw_events", "select json->>'b' from raw_events"),
        ("select json #>> '{a}' from raw_events", "select json #>> '{b}' from raw_events"),
        ("select json:'a' from raw_events", "select json:'b' from raw_events"),
        (
            "select cast(json_parse(json) as row(userId int)) from raw_events",
            "select cast(json_parse(json) as row(userid int)) from raw_events",
        ),
    ],
)
def test_statements_that_request_other_keys_are_not_taken_for_each_other(one: str, other: str) -> None:
    miner = Miner(RULES)
    assert miner.mine(query(one))[0] != miner.mine(query(other))[0]


def test_statements_that_differ_in_a_compared_value_are_the_same() -> None:
    miner, text = Miner(RULES), "select json->>'a' from raw_events where dt > '{}'"
    assert miner.mine(query(text.format("2024-01-01")))[0] == miner.mine(query(text.format("2024-01-02")))[0]
