from __future__ import annotations

import pytest

from streaming.mining.model import Form, MinedKeys, Parser
from tests.builders.keylog.mining import mined, named, reasons


TABLE_SCAN = """\
(1) Scan orc spark_catalog.default.raw_events
Output [2]: [json#7, id#8L]
Batched: true
Location: InMemoryFileIndex [file:/wh/x]
ReadSchema: struct<json:string>
"""
FILE_SCAN = """\
(1) Scan text{space}
Output [1]: [json#7]
Location: InMemoryFileIndex [file:/data/raw_events/yyyy_mm_dd=2016-04-18]
""".format(space=" ")


def plan(*nodes: str, scan: str = TABLE_SCAN) -> MinedKeys:
    return mined("== Physical Plan ==\nProject (2)\n\n\n" + scan + "\n" + "\n\n".join(nodes), form=Form.PLAN)


@pytest.mark.parametrize("scan", [TABLE_SCAN, FILE_SCAN])
@pytest.mark.parametrize(
    ("nodes", "keys"),
    [
        (["Condition : (get_json_object(json#7, $.a) = 1)"], ["$.a"]),
        (["Output [1]: [get_json_object(json#7, $['x.y (z)']) AS q#9]"], ["$['x.y (z)']"]),
        (
            [
                (
                    "Output [1]: [get_json_object(get_json_object(json#7, $.u), $.b) AS get_json_object(u, "
                    "$.no)#15]"
                )
            ],
            ["$.u.b"],
        ),
        (
            [
                "Output [1]: [get_json_object(json#7, $.u) AS u#9]",
                "Output [1]: [get_json_object(u#9, $.b) AS b#10]",
            ],
            ["$.u.b"],
        ),
        (["Arguments: json_tuple(json#7, a, b.c), false, [a#16, b#17]"], ["$.a", "$['b.c']"]),
        (
            [
                "Arguments: json_tuple(json#7, a, b), false, [a#16, b#17]",
                "Condition : (get_json_object(b#17, $.x) = 1)",
            ],
            ["$.a", "$.b.x"],
        ),
        (
            [
                (
                    "Output [1]: [from_json(StructField(u,StructType(StructField(b,IntegerType,true)),true), "
                    "json#7, Some(UTC), false).u.b AS b#9]"
                )
            ],
            ["$.u.b"],
        ),
        (
            [
                (
                    "Output [1]: [from_json(StructField(a,IntegerType,true), StructField(c,StringType,true), "
                    "json#7, Some(UTC), false) AS j#21]"
                ),
                "Output [2]: [j#21.c AS c#24]",
            ],
            ["$.c"],
        ),
        (
            [
                (
                    "Output [1]: [variant_get(static_invoke(VariantExpressionEvalUtils.parseJson(json#7, "
                    "false, true)), $.u.b, IntegerType, true) AS v#9]"
                )
            ],
            ["$.u.b"],
        ),
        (["Output [1]: [get_json_object(cast(json#7 as string), $.a) AS a#9]"], ["$.a"]),
        (
            [
                "Output [1]: [get_json_object(json#7, $.a) AS a#9]",
                "Output [1]: [get_json_object(json, $.j)#29]",
            ],
            ["$.a"],
        ),
        (["Output [1]: [get_json_object(other#77, $.no) AS a#9]"], []),
        (
            [
                (
                    "Arguments: HashedRelationBroadcastMode(List(get_json_object(input[0, string, true], "
                    "$.no)),false)"
                )
            ],
            [],
        ),
    ],
)
def test_a_plan_requests_the_keys_that_it_extracts_from_a_scan_of_a_raw_table(
    scan: str, nodes: list[str], keys: list[str]
) -> None:
    found = plan(*nodes, scan=scan)
    assert (named(found), reasons(found), found.parser) == (keys, {}, Parser.PLAN)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Condition : (get_json_object(lower(json#7), $.a) = 1)", {"expression": 1}),
        ("Condition : (get_json_object(json#7, path#8) = 1)", {"path-not-literal": 1}),
        ("Condition : (get_json_object(json#7, $) = 1)", {"whole-document": 1}),
    ],
)
def test_uses_that_a_plan_hides_are_counted(node: str, expected: dict[str, int]) -> None:
    assert (named(plan(node)), reasons(plan(node))) == ([], expected)


def test_the_tree_of_the_simple_mode_is_read() -> None:
    found = mined(
        "== Physical Plan ==\n*(1) Project [get_json_object(json#7, $.a) AS a#9]\n"
        "+- FileScan orc spark_catalog.default.raw_events[json#7,id#8L] Batched: true, DataFilters: [], "
        "Format: ORC\n",
        form=Form.PLAN,
    )
    assert named(found) == ["$.a"]


def test_a_column_of_the_same_name_in_another_table_is_ignored() -> None:
    other = TABLE_SCAN.replace("raw_events", "other").replace("#7", "#17").replace("(1)", "(3)")
    assert named(
        plan(other, "Condition : (get_json_object(json#17, $.no) = get_json_object(json#7, $.a))")
    ) == ["$.a"]


@pytest.mark.parametrize(
    "rest", ["get_json_object(" * 20_000, "(" * 100_000, "x#7." * 50_000, "json#7.a AS y#7 " * 20_000]
)
def test_a_hostile_plan_has_an_answer(rest: str) -> None:
    assert plan(rest).parser is Parser.PLAN
