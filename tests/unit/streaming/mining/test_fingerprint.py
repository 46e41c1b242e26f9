from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.mining.json_functions import functions_by_name
from streaming.mining.miner import Miner
from streaming.mining.model import Form
from streaming.mining.tokens import fingerprint
from tests.builders.keylog.mining import FUNCTIONS, RULES, named, query


CALLS = functions_by_name(FUNCTIONS)
BASE = (
    "select get_json_object(json, '$.a') from raw_events where ds = '2016-04-18' and hh in (1, 2) and n = 5"
)


def mark(text: str, form: Form = Form.SQL) -> str:
    return fingerprint(text, form, CALLS)


@pytest.mark.parametrize(
    "same",
    [
        (
            "SELECT get_json_object(json, '$.a')\n\tFROM raw_events -- daily\nWHERE ds = '2016-04-19' and "
            "hh in (3) and n = 7"
        ),
        (
            "select /* x */ get_json_object(json,'$.a') from raw_events where ds='x' and hh in (1,2,3,4) and "
            "n=5.5e1"
        ),
    ],
)
def test_runs_of_the_same_query_have_the_same_fingerprint(same: str) -> None:
    assert mark(same) == mark(BASE)


@pytest.mark.parametrize(
    "other",
    [
        BASE.replace("$.a", "$.b"),
        BASE.replace("raw_events", "raw_other"),
        "select json_tuple(json, 'a') from raw_events",
        "select json_tuple(json, 'b') from raw_events",
        "select mydb.EVENT_PARSER(json, 'a') from raw_events",
        "select mydb.EVENT_PARSER(json, 'b') from raw_events",
        "select json:foo from raw_events",
        "select json:Foo from raw_events",
        "select json:['a b'] from raw_events",
        "select json:['a c'] from raw_events",
        "x = 'select json:a from raw_events'",
        "x = 'select json:b from raw_events'",
    ],
)
def test_a_change_of_keys_changes_the_fingerprint(other: str) -> None:
    others = [BASE, "select json_tuple(json, 'z') from raw_events", "select json:FOO from raw_events"]
    assert mark(other) not in {mark(each) for each in others}
    assert len(mark(other)) == 32


def test_a_plan_keeps_its_fingerprint_when_its_ids_change() -> None:
    plan = (
        "(1) Scan\nOutput [2]: [json#{0}, u#{1}]\nArguments: get_json_object(json#{0}, $.a) AS x#{2}, "
        "[plan_id={2}]"
    )
    assert mark(plan.format(7, 8, 9), Form.PLAN) == mark(plan.format(107, 18, 99), Form.PLAN)
    assert mark(plan.format(7, 8, 9), Form.PLAN) != mark(plan.format(7, 8, 7), Form.PLAN)
    assert mark(plan) != mark(plan, Form.PLAN)


LITERAL = st.sampled_from(["'2016-04-18'", "'a'", "7", "1.5", "'it''s'", '"b"'])


@given(
    LITERAL, LITERAL, st.sampled_from(["$.a", "$.b", "a"]), st.sampled_from(["get_json_object", "json_tuple"])
)
def test_texts_with_the_same_fingerprint_request_the_same_keys(
    one: str, two: str, path: str, function: str
) -> None:
    texts = [
        f"select {function}(json, '{path}') from raw_events where x = {literal}" for literal in (one, two)
    ]
    assert mark(texts[0]) == mark(texts[1])
    assert len({tuple(named(Miner(RULES).mine(query(text))[1])) for text in texts}) == 1


def test_a_remembered_fingerprint_is_not_read_again_and_a_dropped_one_is() -> None:
    miner = Miner(type(RULES)(RULES.raw_tables, remembered=1))
    first, second = query(BASE), query(BASE.replace("$.a", "$.b"))
    keys = miner.mine(first)[1]
    assert miner.mine(query(BASE.replace("2016-04-18", "2016-04-19")))[1] is keys
    miner.mine(second)
    assert miner.mine(first)[1] is not keys
    assert miner.mine(first)[1].keys == keys.keys
