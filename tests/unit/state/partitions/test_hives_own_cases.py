"""Hive's own test of partition filters: six partitions, and how many of them each filter finds."""

from __future__ import annotations

import pytest

from state.errors import BadFilter, InvalidRequest, NotFound
from state.partitions.filters.dialect import HIVE_2, HIVE_4
from state.partitions.index.metastore_calls import PartitionCalls
from tests.builders.partitions.indexed_tables import an_index


ROWS = [
    ("p11", "p21", "31", "p41"),
    ("p11", "p22", "32", "p42"),
    ("p12", "p21", "31", "p43"),
    ("p12", "p23", "32", "p43"),
    ("p13", "p24", "31", "p44"),
    ("p13", "p25", "-33", "p45"),
]
BOTH = {
    'p1="p11"': 2,
    'p2="p23"': 1,
    "p3=31": 3,
    "p3=33": 0,
    "p3=-33": 1,
    'p1="p11" or p2="p23"': 3,
    'p3=-33 or p1="p12"': 3,
    'p1!="p11"': 4,
    'p2!="p33"': 6,
    "p3!=32": 4,
    "p3!=8589934592": 6,
    'p1!="p11" and p2!="p22"': 4,
    'p1!="p11" or p2!="p22"': 5,
    'p1!="p12" or p2!="p25"': 6,
    'p3!=-33 or p1!="p13"': 5,
    'p3!=31 and p1="p12"': 1,
    '31!=p3 and p1="p12"': 1,
    '"p23"=p2': 1,
    'p1="p11" or (p1="p12" and p2="p21")': 3,
    'p1="p12" and (p2="p27" Or p2="p21")': 1,
    'p1="p12" and p2="p27" Or p2="p21"': 2,
    'p1>"p12"': 2,
    'p1>="p12"': 4,
    'p1<"p12"': 2,
    'p1<="p12"': 4,
    "p3<0": 1,
    "p3>=-33": 6,
    "p3>-33": 5,
    "p3>31 and p3<32": 0,
    "p3>31 or p3<31": 3,
    "p3>=31 or p3<-32": 6,
    "p3>32": 0,
    'p1 between "p11" and "p12"': 4,
    'p1 not between "p11" and "p12"': 2,
    "p3 between 32 and 31": 0,
    "p3 between -32 and 34 and p3 not between 31 and 32": 0,
    'p3 between 31 and 32 and p1 between "p12" and "p14"': 3,
    "": 6,
}
HIVE_4_ONLY = {
    'p1 like "p1%"': 6,
    'p2 like "p%3"': 1,
    'p4 between "p41" and "p44"': 5,
    '(p1) in ("p11","p12")': 4,
    "(p3) not in (31,33)": 3,
    "(p4) not in ('p43','p44')": 3,
    "(struct (p1,p2)) in (const struct ('p11','p22'),const struct ('p12','p22'))": 1,
    "(struct (p1,p3)) not in (struct ('p11',31),struct ('p12',33))": 5,
    "(p1 = 'p11') is not true": 4,
    "(p1 = 'p11' or p3 = 31) is false": 2,
    "(p1) in ('p11') is true": 2,
    "(p1) in ('p11') is not false": 2,
    "p3 == 31": 3,
    "p3 = '__HIVE_DEFAULT_PARTITION__'": 0,
    "p3 != '__HIVE_DEFAULT_PARTITION__'": 6,
}
REFUSED = ['p3>="p12"', 'c1>="p12"', "c1>= ", "p2 !< 'dd'", "'p1' like p1", "p3 like '3'"]


def calls(hive_version: int) -> PartitionCalls:
    """Fixture A: p2 is a varchar and p4 exists in Hive 4 only."""
    columns = [
        ("p1", "string"),
        ("p2", "string" if hive_version == 2 else "varchar(20)"),
        ("p3", "int"),
        ("p4", "char(20)"),
    ]
    rows = [row[: len(columns) - (hive_version == 2)] for row in ROWS]
    index = an_index(columns[: len(rows[0])], rows)
    return PartitionCalls(index, HIVE_2 if hive_version == 2 else HIVE_4)


@pytest.mark.parametrize("hive_version", [2, 4])
@pytest.mark.parametrize(("text", "count"), BOTH.items())
def test_both_dialects_find_as_many_as_the_metastore(hive_version: int, text: str, count: int) -> None:
    asked = calls(hive_version)
    assert asked.count_by_filter("sales", "events", text) == count
    assert len(asked.names_by_filter("SALES", "Events", text)) == count


@pytest.mark.parametrize(("text", "count"), HIVE_4_ONLY.items())
def test_hive_4_filters_find_as_many_as_the_metastore(text: str, count: int) -> None:
    assert calls(4).count_by_filter("sales", "events", text) == count


@pytest.mark.parametrize("hive_version", [2, 4])
@pytest.mark.parametrize("text", REFUSED)
def test_a_filter_that_the_metastore_refuses_is_refused_with_its_position(
    hive_version: int, text: str
) -> None:
    with pytest.raises(BadFilter) as refused:
        calls(hive_version).by_filter("sales", "events", text)
    assert isinstance(refused.value.context["position"], int)


@pytest.mark.parametrize("text", ["p1 like 'p1%'", "p1 like '.*'", "p1 like 'p.1'"])
def test_hive_2_has_its_own_wildcards(text: str) -> None:
    assert (
        calls(2).count_by_filter("sales", "events", text)
        == {"p1 like 'p1%'": 0, "p1 like '.*'": 6, "p1 like 'p.1'": 2}[text]
    )


def test_answers_are_limited_in_the_order_of_names() -> None:
    index = an_index([("p1", "int")], [("2",), ("10",), ("007",), ("-5",), ("100",)])
    asked = PartitionCalls(index)
    names = ["p1=-5", "p1=007", "p1=10", "p1=100", "p1=2"]
    assert asked.names_by_filter("sales", "events", None) == names
    assert asked.names_by_filter("sales", "events", "p1 < 1000", 3) == names[:3]
    assert [one.name for one in asked.by_filter("sales", "events", "p1 < 1000", 2)] == names[:2]
    assert asked.by_filter("sales", "events", "", 0) == []
    assert asked.names_ps("sales", "events", ["007"]) == ["p1=007"]
    assert asked.names_ps("sales", "events", ["7"]) == []


def test_a_partition_is_returned_with_its_values_and_payload() -> None:
    (found,) = calls(4).by_filter("sales", "events", "p3 < 0")
    assert found.values == ROWS[-1]
    assert found.payload == b"p13|p25|-33|p45"
    assert found.name == "p1=p13/p2=p25/p3=-33/p4=p45"


def test_a_partial_specification_does_not_limit_the_other_columns() -> None:
    asked = calls(4)
    assert len(asked.names_ps("sales", "events", [])) == 6
    assert len(asked.names_ps("sales", "events", ["p11"])) == 2
    assert len(asked.names_ps("sales", "events", ["", "", "31"])) == 3
    assert asked.names_ps("sales", "events", ["p12", "", "32", ""], 1) == ["p1=p12/p2=p23/p3=32/p4=p43"]
    with pytest.raises(InvalidRequest):
        asked.names_ps("sales", "events", ["a", "b", "c", "d", "e"])


def test_an_unread_expression_returns_all_partitions_marked_as_inexact() -> None:
    answer = calls(4).by_expr("sales", "events", b"\x01\x01\x00java.util.ArrayList")
    assert (len(answer.partitions), answer.has_unknown) == (6, True)


def test_an_unknown_table_and_a_missing_name_are_different_errors() -> None:
    for db, table in [("sales", "none"), ("", "events"), ("sales", "")]:
        with pytest.raises(NotFound):
            calls(4).by_filter(db, table, "")
    for db_or_none, table_or_none in [(None, "events"), ("sales", None)]:
        with pytest.raises(InvalidRequest):
            calls(4).by_filter(db_or_none, table_or_none, "")
