"""Hive's expression trees as filters: what is translated, what is left out, and that no partition is ever
missed."""

from __future__ import annotations

import pytest

from state.partitions.filters.hive_expressions import UNKNOWN, Call, Expression, translate
from state.partitions.filters.syntax_tree import Comparison
from state.partitions.index.lookups import TableLookups
from state.partitions.keys.values import parse_timestamp
from tests.builders.partitions.hive_expressions import call, column, constant
from tests.builders.partitions.indexed_tables import DEFAULT, TABLE, an_index


COLUMNS = [("i", "int"), ("s", "string"), ("d", "date")]
ROWS: list[tuple[str, ...]] = [
    ("1", "a", "2020-01-01"),
    ("2", "ab", "2020-01-02"),
    ("3", "b", DEFAULT),
    (DEFAULT, DEFAULT, "2020-01-03"),
]
NR, S, D = column("i", "int"), column("s"), column("d", "date")
ONE, TWO = constant(1, "int"), constant(2, "int")
FOREIGN = call("Murmur", S)


def asked(expression: Expression | None) -> tuple[list[str], bool]:
    index = an_index(COLUMNS, ROWS)
    selection, is_exact = TableLookups(index, TABLE).by_expression(expression)
    numbers = {values: str(number) for number, values in enumerate(ROWS)}
    return [numbers[each.values] for each in index.partitions(selection.prepared)], not is_exact


@pytest.mark.parametrize(
    ("expression", "rows"),
    [
        (call("OPEqual", NR, ONE), "0"),
        (call("OPEqual", ONE, NR), "0"),
        (call("OPLessThan", ONE, NR), "12"),
        (call("OPEqual", NR, constant(1, "bigint")), "0"),
        (call("OPEqualNS", NR, ONE), "0"),
        (call("In", NR, ONE, TWO), "01"),
        (call("OPNot", call("In", NR, ONE, TWO)), "2"),
        (call("Between", constant("false", "boolean"), NR, ONE, TWO), "01"),
        (call("Between", constant("true", "boolean"), NR, ONE, ONE), "12"),
        (call("OPNull", NR), "3"),
        (call("OPNotNull", NR), "012"),
        (call("OPNull", D), "2"),
        (call("OPNot", call("OPNull", NR)), "012"),
        (call("OPNull", S), "3"),
        (call("OPNotEqual", S, constant("b")), "01"),
        (call("OPNot", call("OPEqual", S, constant("b"))), "01"),
        (call("OPEqualOrLessThan", S, constant("a")), "0"),
        (call("OPNot", call("OPOr", call("OPEqual", NR, ONE), call("OPEqual", S, constant("b")))), "1"),
        (call("like", S, constant("a%")), "01"),
        (call("OPEqualOrGreaterThan", D, constant("2020-01-02", "date")), "13"),
        (call("OPOr", call("OPEqual", NR, ONE), call("OPEqual", S, constant("b"))), "02"),
        (call("OPAnd", call("OPGreaterThan", NR, ONE), call("OPNotEqual", S, constant("b"))), "1"),
    ],
)
def test_expressions_that_a_filter_can_express_are_answered_exactly(
    expression: Expression, rows: str
) -> None:
    found, has_unknown = asked(expression)
    assert ("".join(sorted(found)), has_unknown) == (rows, False)


@pytest.mark.parametrize(
    ("expression", "rows"),
    [
        (None, "0123"),
        (FOREIGN, "0123"),
        (NR, "0123"),
        (call("OPAnd", call("OPEqual", NR, ONE), FOREIGN), "0"),
        (call("OPOr", call("OPEqual", NR, ONE), FOREIGN), "0123"),
        (call("OPNot", call("OPAnd", call("OPEqual", NR, ONE), FOREIGN)), "0123"),
        (call("OPNot", call("OPOr", call("OPEqual", NR, ONE), FOREIGN)), "12"),
        (call("OPNot", call("OPEqualNS", NR, ONE)), "0123"),
        (call("OPNot", call("like", S, constant("a%"))), "0123"),
        (call("OPEqual", NR, constant(None, "int")), "0123"),
        (call("OPEqual", S, ONE), "0123"),
        (call("Between", constant("false", "boolean"), NR, constant(None, "int"), TWO), "0123"),
        (call("Between", constant("false", "boolean"), NR, ONE, constant("2")), "0123"),
        (call("OPEqual", column("i", "boolean"), constant("true", "boolean")), "0123"),
        (call("OPEqual", NR, constant("x", "int")), "0123"),
        (call("In", NR, ONE, call("Plus", ONE, ONE)), "0123"),
        (call("OPEqual", column("other", "int"), ONE), "0123"),
        (call("OPEqual", call("ToDate", S), constant("2020-01-01", "date")), "0123"),
    ],
)
def test_other_expressions_return_more_partitions_and_are_marked_as_inexact(
    expression: Expression | None, rows: str
) -> None:
    found, has_unknown = asked(expression)
    assert ("".join(sorted(found)), has_unknown) == (rows, True)


def test_a_tree_of_any_depth_is_answered() -> None:
    tree: Expression = call("OPEqual", NR, ONE)
    for _ in range(5_000):
        tree = Call(call("OPNot").function, (tree,))
    assert translate(tree, DEFAULT) == UNKNOWN


def test_a_timestamp_is_compared_by_its_value_and_a_text_that_is_none_is_left_out() -> None:
    at, moment = column("at", "timestamp"), constant("2020-01-01 10:00:00", "timestamp")
    translation = translate(call("OPEqual", at, moment), DEFAULT)
    assert translation.is_exact
    assert isinstance(translation.filter, Comparison)
    assert translation.filter.literal.value == parse_timestamp("2020-01-01 10:00:00")
    assert translate(call("OPEqual", at, constant("noon", "timestamp")), DEFAULT) == UNKNOWN
