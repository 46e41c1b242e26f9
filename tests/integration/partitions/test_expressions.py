"""Expressions written by the classes of Hive 2.3 and of Hive 4, read, and answered as Hive 4 answers them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import PartitionsByExprRequest

from dev.stack.endpoints import ClusterEndpoints
from handlers.expressions.expression_reader import ExpressionReader
from state.partitions.filters.hive_expressions import Expression
from state.partitions.index.lookups import TableLookups
from tests.builders.partitions.hive_expressions import HiveWriter, call, column, constant
from tests.builders.partitions.indexed_tables import DEFAULT, TABLE, an_index
from tests.builders.partitions.metastore_and_index import COLUMNS, filled_table


ROWS = [
    ("1", "a", "2020-01-01"),
    ("2", "ab", "2020-01-02"),
    ("3", "it's", "2020-01-02"),
    ("255", "b", "1969-12-31"),
    (DEFAULT, "x_y", "2020-01-03"),
    ("7", DEFAULT, DEFAULT),
]
NR, S, D = column("i", "int"), column("s"), column("d", "date")
ONE, TWO = constant(1, "int"), constant(2, "int")
DAY = constant("2020-01-02", "date")
EXACT: dict[str, Expression] = {
    "equal": call("OPEqual", NR, ONE),
    "reversed": call("OPLessThan", ONE, NR),
    "and": call("OPAnd", call("OPGreaterThan", NR, ONE), call("OPNotEqual", S, constant("it's"))),
    "or": call("OPOr", call("OPEqual", NR, ONE), call("OPEqual", NR, TWO), call("OPEqual", S, constant("b"))),
    "in": call("In", NR, ONE, TWO),
    "not in": call("OPNot", call("In", NR, ONE, TWO)),
    "between": call("Between", constant("false", "boolean"), NR, ONE, TWO),
    "not between": call("Between", constant("true", "boolean"), NR, ONE, TWO),
    "null": call("OPNull", NR),
    "not null": call("OPNotNull", NR),
    "date": call("OPEqualOrGreaterThan", D, DAY),
    "text": call("OPEqualOrLessThan", S, constant("ab")),
}
NO_TEXT = set(EXACT) - {"and", "or", "text"}
LARGER: dict[str, Expression] = {
    "a conversion": call("OPEqual", call("ToDate", S), DAY),
    "a class that is not on the list": call("OPEqual", call("Length", S), ONE),
    "null constant": call("OPEqual", NR, constant(None, "int")),
}


@pytest.fixture(scope="module")
def reader() -> ExpressionReader:
    return ExpressionReader()


@pytest.fixture(scope="module", params=[False, True], ids=["Hive 2.3", "Hive 4"])
def writer(request: pytest.FixtureRequest) -> Iterator[HiveWriter]:
    with HiveWriter(is_hive4=request.param) as open_writer:
        yield open_writer


@pytest.mark.parametrize("name", [*EXACT, "like", "timestamp", "bigint"])
def test_expressions_of_both_hive_versions_are_read_correctly(
    writer: HiveWriter, reader: ExpressionReader, name: str
) -> None:
    more: dict[str, Expression] = {
        "like": call("like", S, constant("a%")),
        "timestamp": call(
            "OPLessThan", column("t", "timestamp"), constant("2020-01-02 03:04:05.5", "timestamp")
        ),
        "bigint": call("OPEqual", column("b", "bigint"), constant(1 << 40, "bigint")),
    }
    expression = {**EXACT, **more}[name]
    read = reader.read(writer.bytes_of(expression))
    assert repr(read).replace(".500000000", ".5") == repr(expression)


def test_only_listed_functions_are_read(writer: HiveWriter, reader: ExpressionReader) -> None:
    assert reader.read(writer.bytes_of(LARGER["a class that is not on the list"])) is None
    assert reader.read(writer.bytes_of(EXACT["equal"])) == EXACT["equal"]


@pytest.mark.parametrize("data", [b"", b"foo", b"\x01\x00org.apache.hadoop.hive.ql.plan.", b"\xff" * 100])
def test_bytes_that_are_not_an_expression_are_not_read(reader: ExpressionReader, data: bytes) -> None:
    before = reader.failures
    assert reader.read(data) is None
    assert reader.failures == before + 1


@pytest.fixture(scope="module")
def theirs(target: ClusterEndpoints) -> Iterator[tuple[Any, str]]:
    with filled_table(target.metastore, ROWS) as client_and_db:
        yield client_and_db


@pytest.mark.parametrize("name", [*EXACT, *LARGER])
def test_the_answer_equals_that_of_hive_4_or_is_larger_and_marked_as_inexact(
    theirs: tuple[Any, str], reader: ExpressionReader, hive4: HiveWriter, name: str
) -> None:
    client, db = theirs
    expression = hive4.bytes_of({**EXACT, **LARGER}[name])
    index = an_index(COLUMNS, ROWS)
    selection, is_exact = TableLookups(index, TABLE).by_expression(reader.read(expression))
    ours = [partition.values for partition in index.partitions(selection.prepared)]
    found = client.get_partitions_by_expr(PartitionsByExprRequest(dbName=db, tblName="p", expr=expression))
    answer = [tuple(partition.values) for partition in found.partitions]
    assert is_exact == (name not in LARGER)
    if not is_exact:
        assert set(ours) >= set(answer)
    else:
        # Hive takes the default partition of a text column for a text, or for NULL, depending on the
        # constants.
        without = [values for values in answer if values[1] != DEFAULT or name in NO_TEXT]
        assert ours == without


@pytest.fixture(scope="module")
def hive4() -> Iterator[HiveWriter]:
    with HiveWriter(is_hive4=True) as open_writer:
        yield open_writer
