"""Hive's own test of partition filters: six partitions, and how many of them each filter finds."""

from __future__ import annotations

import pytest

from state.errors import BadFilter, InvalidRequest, NotFound
from state.partitions.filters.dialect import HIVE_2, HIVE_4
from state.partitions.index.lookups import TableLookups
from tests.builders.partitions.indexed_tables import TABLE, an_index


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


def lookups(hive_version: int) -> TableLookups:
    """Fixture A: p2 is a varchar and p4 exists in Hive 4 only."""
    columns = [
        ("p1", "string"),
        ("p2", "string" if hive_version == 2 else "varchar(20)"),
        ("p3", "int"),
        ("p4", "char(20)"),
    ]
    rows = [row[: len(columns) - (hive_version == 2)] for row in ROWS]
    index = an_index(columns[: len(rows[0])], rows)
    return TableLookups(index, TABLE, HIVE_2 if hive_version == 2 else HIVE_4)


@pytest.mark.parametrize("hive_version", [2, 4])
@pytest.mark.parametrize(("text", "count"), BOTH.items())
def test_both_dialects_find_as_many_as_the_metastore(hive_version: int, text: str, count: int) -> None:
    selection = lookups(hive_version).by_filter(text)
    assert selection.count() == count
    assert len(selection.names()) == count


@pytest.mark.parametrize(("text", "count"), HIVE_4_ONLY.items())
def test_hive_4_filters_find_as_many_as_the_metastore(text: str, count: int) -> None:
    assert lookups(4).by_filter(text).count() == count


@pytest.mark.parametrize("hive_version", [2, 4])
@pytest.mark.parametrize("text", REFUSED)
def test_a_filter_that_the_metastore_refuses_is_refused_with_its_position(
    hive_version: int, text: str
) -> None:
    with pytest.raises(BadFilter) as refused:
        lookups(hive_version).by_filter(text)
    assert isinstance(refused.value.context["position"], int)


@pytest.mark.parametrize("text", ["p1 like 'p1%'", "p1 like '.*'", "p1 like 'p.1'"])
def test_hive_2_has_its_own_wildcards(text: str) -> None:
    assert (
        lookups(2).by_filter(text).count()
        == {"p1 like 'p1%'": 0, "p1 like '.*'": 6, "p1 like 'p.1'": 2}[text]
    )


def test_answers_are_limited_in_the_order_of_names() -> None:
    index = an_index([("p1", "int")], [("2",), ("10",), ("007",), ("-5",), ("100",)])
    table = TableLookups(index, TABLE)
    names = [b"p1=-5", b"p1=007", b"p1=10", b"p1=100", b"p1=2"]
    assert table.by_filter(None).names() == names
    assert table.by_filter("p1 < 1000", 3).names() == names[:3]
    assert [name for name, _ in table.by_filter("p1 < 1000", 2).payloads()] == names[:2]
    assert table.by_filter("", 0).payloads() == []
    assert table.by_values(["007"]).names() == [b"p1=007"]
    assert table.by_values(["7"]).names() == []
    assert table.by_values(["007"], 0).count() == 0
    assert table.by_names(["p1=10", "p1=7", "p1=-5"]).names() == [b"p1=-5", b"p1=10"]


def test_a_partition_is_returned_with_its_values_and_payload() -> None:
    index = lookups(4).index
    (partition,) = index.partitions(index.prepare(TABLE, "p3 < 0"))
    assert partition.values == ROWS[-1]
    assert partition.payload == b"p13|p25|-33|p45"
    assert partition.name == "p1=p13/p2=p25/p3=-33/p4=p45"


def test_a_partial_specification_does_not_limit_the_other_columns() -> None:
    table = lookups(4)
    assert table.by_values([]).count() == 6
    assert table.by_values(["p11"]).count() == 2
    assert table.by_values(["", "", "31"]).count() == 3
    assert table.by_values(["p12", "", "32", ""], 1).names() == [b"p1=p12/p2=p23/p3=32/p4=p43"]
    with pytest.raises(InvalidRequest):
        table.by_values(["a", "b", "c", "d", "e"])


def test_an_unread_expression_returns_all_partitions_marked_as_inexact() -> None:
    selection, is_exact = lookups(4).by_expression(None)
    assert (selection.count(), is_exact) == (6, False)


def test_an_unknown_table_is_an_error() -> None:
    for name in ("sales.none", ".events", "sales."):
        with pytest.raises(NotFound):
            TableLookups(lookups(4).index, name).by_filter("")
