"""The partition calls from the index and from a real metastore of Hive 4.2: equal, field by field."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.endpoint.answers.partition_calls import CALLS
from daemon.endpoint.answers.table_access import Reason
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.catalog.index.partition_follower import PartitionRules
from handlers.catalog.timelines.rules import Rules
from tests.builders.catalog.followed_catalog import catalogs_of
from tests.builders.endpoint.index_and_metastore import (
    IndexAndMetastore,
    every_call,
    indexed_tables,
    responder_of,
)
from tests.builders.endpoint.partition_requests import binary_value, positional, request
from tests.builders.partitions.filter_contract import DAYS, NUMBERS, WORDS
from tests.builders.partitions.hive_expressions import HiveWriter, call, column, constant
from tests.builders.partitions.indexed_tables import DEFAULT, Condition, conditions
from tests.builders.partitions.metastore_and_index import TEXTS


BY_EXPRESSION = {"get_partitions_by_expr", "get_partition_names_req", "get_partitions_spec_by_expr"}
TABLES = ("plain", "odd", "acid", "bucketed")
live = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def both(source: ClusterEndpoints) -> Iterator[IndexAndMetastore]:
    db = f"endpoint_calls_{random.getrandbits(40):x}"  # noqa: S311 - a name, no secret
    with indexed_tables(source.metastore, db, TABLES) as both:
        yield both


@pytest.mark.parametrize("table", TABLES)
def test_every_call_has_the_answer_of_the_metastore(both: IndexAndMetastore, table: str) -> None:
    calls = every_call(both.db, table, both.names(table), both.values(table))
    forwarded = {one.name for one in calls if both.compare(one) is not None}
    assert forwarded == ({"get_partitions_by_names_req"} if table == "bucketed" else set())
    assert {one.name for one in calls} == CALLS.keys() - BY_EXPRESSION


@given(conditions((NUMBERS, WORDS, DAYS)), st.sampled_from([-1, 1, 5, 1000]))
@live
def test_any_filter_has_the_answer_of_the_metastore(
    both: IndexAndMetastore, condition: Condition, most: int
) -> None:
    for table in ("plain", "odd"):
        reason = both.compare(positional("get_partitions_by_filter", both.db, table, condition.text, most))
        assert table == "odd" or reason in {None, Reason.NOT_CERTAIN}
    both.compare(positional("get_num_partitions_by_filter", both.db, "plain", condition.text))


@given(st.tuples(*(st.sampled_from(["", "x_y", *texts]) for texts in TEXTS)), st.sampled_from([-1, 3]))
@live
def test_any_partial_specification_has_the_answer_of_the_metastore(
    both: IndexAndMetastore, values: tuple[str, ...], most: int
) -> None:
    for table in ("plain", "odd"):
        for name in ("get_partition_names_ps", "get_partitions_ps", "get_partitions_ps_with_auth"):
            both.compare(positional(name, both.db, table, values, most))


@pytest.mark.parametrize(
    "text",
    [
        "i = 7",
        "i != 8",
        "s != 'x_y'",
        "d = '2020-01-01'",
        r"s = 'a\b'",
        "s = 'a b%/c'",
        "s like 'x_y'",
        "s = 'b:c'",
    ],
)
def test_values_that_metastores_compare_in_their_own_way_are_never_answered_differently(
    both: IndexAndMetastore, text: str
) -> None:
    both.compare(positional("get_partitions_by_filter", both.db, "odd", text, -1))


def test_errors_are_the_metastores_own(both: IndexAndMetastore) -> None:
    for name, *arguments in (
        ("get_partitions_by_filter", "odd", "i = ", -1),
        ("get_partitions_by_filter", "odd", "nosuch = 1", -1),
        ("get_partition", "odd", ["1", "none", "2020-01-01"]),
        ("get_partition_by_name", "odd", "i=1/s=none/d=2020-01-01"),
        ("get_partition_names_ps", "odd", ["7"], -1),
        ("get_partitions", "absent", -1),
    ):
        assert both.compare(positional(name, both.db, *arguments)) is not None


NR, S, D = column("i", "int"), column("s"), column("d", "date")
EXPRESSIONS = {
    "numbers": call(
        "OPAnd", call("OPGreaterThan", NR, constant(6, "int")), call("OPNotEqual", NR, constant(255, "int"))
    ),
    "list": call("In", NR, constant(7, "int"), constant(256, "int"), constant(-1, "int")),
    "not in a list": call("OPNot", call("In", NR, constant(7, "int"), constant(0, "int"))),
    "null": call("OPNull", NR),
    "not null": call("OPNotNull", D),
    "dates": call("OPEqualOrGreaterThan", D, constant("2020-06-18", "date")),
    "or": call(
        "OPOr", call("OPEqual", NR, constant(7, "int")), call("OPEqual", D, constant("1970-01-01", "date"))
    ),
    "nothing": call("OPEqual", NR, constant(12345, "int")),
    "text": call("OPEqual", S, constant("a")),
}


@pytest.mark.long
def test_expressions_of_hive_4_have_the_answer_of_the_metastore(both: IndexAndMetastore) -> None:
    with HiveWriter(is_hive4=True) as writer:
        written = {name: writer.bytes_of(expression) for name, expression in EXPRESSIONS.items()}
    for name, data in written.items():
        both.expressions[data] = EXPRESSIONS[name]
        for table, call_name in itertools.product(("plain", "odd", "acid"), BY_EXPRESSION):
            for more in ({5: -1}, {4: DEFAULT, 5: -1, 6: "hive", 8: "ids", 10: False, 11: "", 12: ""}):
                fields = {1: both.db, 2: table, 3: binary_value(data), **more}
                reason = both.compare(request(call_name, fields))
                assert reason in {None, Reason.NOT_CERTAIN}, (name, reason)
                assert table == "odd" or (reason is None) == (name != "text"), (name, table, call_name)


KINDS = {
    "plain": "CREATE EXTERNAL TABLE {} (id int, name string) PARTITIONED BY (i int, s string, d date)",
    "acid": "CREATE TABLE {} (id int, name string) PARTITIONED BY (i int, s string, d date) STORED AS ORC"
    " TBLPROPERTIES ('transactional'='true')",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_tables_that_a_sql_engine_writes_have_the_answers_of_the_metastore(
    source: ClusterEndpoints, source_sql: Session, database: str, kind: str
) -> None:
    steps: list[Any] = [
        f"CREATE DATABASE {database}",
        f"USE {database}",
        KINDS[kind].format("t"),
        "INSERT INTO t PARTITION (i=1, s='a', d='2020-01-01') VALUES (1, 'a')",
        "ALTER TABLE t ADD PARTITION (i=2, s='a b', d='2020-01-02')",
        "ANALYZE TABLE t PARTITION (i=1, s='a', d='2020-01-01') COMPUTE STATISTICS FOR COLUMNS",
        "ALTER TABLE t ADD COLUMNS (extra int)",
        "INSERT INTO t PARTITION (i=3, s='c', d='2020-01-03') VALUES (3, 'c', 3), (4, 'd', 4)",
        *(["DELETE FROM t WHERE id = 4"] if kind == "acid" else []),
    ]
    for step in steps:
        source_sql.run(step)
    with catalogs_of(source.metastore) as make:
        catalog = make(Rules(lens=False), partitions=PartitionRules((f"{database}.*",)))
        catalog.follow()
        with responder_of(catalog, source.metastore, database) as both:
            names, values = both.names("t"), both.values("t")
            calls = every_call(database, "t", names * 10, values * 10)
            assert [one.name for one in calls if both.compare(one) is not None] == []
