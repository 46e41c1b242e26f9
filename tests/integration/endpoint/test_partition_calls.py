"""The partition calls from the index and from a real metastore of Hive 4.2: equal, field by field."""

from __future__ import annotations

import itertools
import random
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.endpoint.answers.index_answers import IndexAnswers
from daemon.endpoint.answers.partition_calls import CALLS
from daemon.endpoint.answers.table_access import Reason
from daemon.endpoint.protocol.streams import Transport
from daemon.endpoint.settings import EndpointSettings
from daemon.endpoint.upstream import Upstream
from daemon.endpoint.verification.comparison import UNORDERED, is_same_answer
from dev.fixtures.hive_tables import ACID, a_partition, a_table
from handlers.catalog.index.partition_follower import PartitionRules
from handlers.catalog.timelines.rules import Rules
from handlers.metastore.connection import Address
from handlers.structs.objects import Database
from tests.builders.catalog.followed_catalog import FollowedCatalog, catalogs_of
from tests.builders.endpoint.memory_tables import MemoryTables
from tests.builders.endpoint.partition_requests import binary_value, positional, read_answer, request
from tests.builders.endpoint.scripted_metastore import Outcomes
from tests.builders.partitions.filter_contract import DAYS, NUMBERS, WORDS
from tests.builders.partitions.hive_expressions import HiveWriter, call, column, constant
from tests.builders.partitions.indexed_tables import DEFAULT, conditions
from tests.builders.partitions.metastore_and_index import COLUMNS, TEXTS, sixty_rows


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.endpoint.protocol.wire import Message
    from dev.stack.endpoints import ClusterEndpoints
    from dev.stack.hive.sql_session import Session
    from state.partitions.filters.hive_expressions import Expression
    from tests.builders.partitions.indexed_tables import Condition


DB = "endpoint_calls"
BY_EXPRESSION = {"get_partitions_by_expr", "get_partition_names_req", "get_partitions_spec_by_expr"}
ODD_ROWS = [("007", "a b%/c", "2020-06-18"), ("5", "x_y", "2020-1-1"), ("5", "xzy", "2020-06-19"), ("5", "b:c", DEFAULT)]  # fmt: skip
TABLES = ("plain", "odd", "acid", "bucketed")
live = settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@dataclass
class Both:
    """A metastore, and the responder of an index that follows it."""

    db: str
    catalog: FollowedCatalog
    upstream: Upstream
    responder: IndexAnswers
    outcomes: Outcomes
    expressions: dict[bytes, Expression]
    """What the responder's reader of expressions knows."""

    def compare(self, message: Message) -> Reason | None:
        """Require equal answers; return the reason if the index forwards the call."""
        answer = self.responder.respond(message, self.upstream)
        if answer is None:
            return self.outcomes.reasons.pop()
        theirs = self.upstream.exchange(message)
        assert theirs.header == answer.header
        assert is_same_answer(answer.body, theirs.body, message.name)
        if message.name not in UNORDERED:
            assert read_answer(answer) == read_answer(theirs)
        return None

    def names(self, table: str) -> list[str]:
        """Return the names of all partitions."""
        return self.catalog.source.partition_names(self.db, table)

    def values(self, table: str) -> list[list[str]]:
        """Return the values of all partitions."""
        found = self.upstream.exchange(positional("get_partitions", self.db, table, -1))
        return [list(partition.values) for partition in read_answer(found)]


@contextmanager
def responder_of(catalog: FollowedCatalog, uri: str, db: str) -> Iterator[Both]:
    upstream = Upstream(EndpointSettings(metastores=(Address.parse(uri),)), Transport.BUFFERED)
    outcomes = Outcomes()
    try:
        expressions: dict[bytes, Expression] = {}
        responder = IndexAnswers(MemoryTables(catalog.partitions), outcomes, expressions.get)
        yield Both(db, catalog, upstream, responder, outcomes, expressions)
    finally:
        upstream.peer.close()


@pytest.fixture(scope="module")
def both(source: ClusterEndpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    db = f"{DB}_{random.getrandbits(40):x}"  # noqa: S311 - a name, no secret
    with catalogs_of(source.metastore) as make:
        catalog = make(Rules(lens=False), partitions=PartitionRules((f"{db}.*",)))
        client = catalog.source
        client.create_database(Database(name=db))
        for name in TABLES:
            parameters, external = (ACID, False) if name == "acid" else (None, True)
            table = a_table(db, name, partition_keys=[key for key, _ in COLUMNS], external=external, parameters=parameters)  # fmt: skip
            for key, (_, declared) in zip(table.partitionKeys or [], COLUMNS, strict=True):
                key.type = declared
            if name == "bucketed":
                table.sd.numBuckets, table.sd.bucketCols = 4, ["id"]
            client.create_table(table)
            rows = sixty_rows() if name == "plain" else sixty_rows()[:24]
            rows += ODD_ROWS if name == "odd" else []
            known = client.get_table(db, name)
            client.add_partitions(db, name, [a_partition(known, *row, parameters={"numFiles": "1"}) for row in rows])  # fmt: skip
        catalog.follow()
        with responder_of(catalog, source.metastore, db) as both:
            yield both
        client.drop_database(db, cascade=True)


def every_call(db: str, table: str, names: list[str], values: list[list[str]]) -> list[Message]:
    """Return every call in the forms of Hive 2.3, 3.1 and 4.2 clients."""
    one, part = values[7], [values[3][0], "", ""]
    write_ids = f"{db}.{table}:5:9223372036854775807::"
    shuffled = random.Random(5).sample(names, 20)  # noqa: S311 - a test's rows
    catalog = {1: "hive", 2: db, 3: table}
    unselected = {7: False, 8: "", 9: ""}
    return [
        positional("get_partitions_by_filter", db, table, "i > 5 and s = 'a'", -1),
        positional("get_partitions_by_filter", f"@hive#{db}", table.upper(), "", 7),
        positional("get_partitions_by_filter", db, table, None, -1),
        request("get_partitions_by_filter_req", {**catalog, 4: "s like 'a%'", 5: -1, 6: False, 7: "", 8: ""}),
        positional("get_num_partitions_by_filter", db, table, "s != 'b'"),
        positional("get_partition_names", db, table, -1),
        positional("get_partition_names", f"@hive#{db}", table, 9),
        positional("get_partition_names_ps", db, table, part, -1),
        positional("get_partition_names_ps", db, table, ["", DEFAULT, ""], -1),
        request("get_partition_names_ps_req", {**catalog, 4: part, 5: -1, 6: write_ids}),
        positional("get_partitions_by_names", db, table, [*shuffled, "i=1/s=none/d=2020-01-01", shuffled[0]]),
        positional("get_partitions_by_names", db, table, []),
        request("get_partitions_by_names_req", {1: db, 2: table, 3: shuffled, 4: False, 5: ["HIVEBUCKET2"], 6: "hs2", 7: "hive", 8: write_ids, 9: False, 11: False, 12: "", 13: ""}),
        request("get_partitions_by_names_req", {1: db, 2: table, 3: shuffled, 5: ["HIVEFULLACIDREAD", "HIVEMANAGEDINSERTREAD"]}),
        positional("get_partitions_ps", db, table, part, -1),
        positional("get_partitions_ps_with_auth", db, table, part, 2, "user", ["group"]),
        positional("get_partitions_ps_with_auth", db, table, ["", "", DEFAULT], -1, None, None),
        request("get_partitions_ps_with_auth_req", {**catalog, 4: part, 5: -1, 6: "user", 7: ["group"], 8: write_ids, 10: False, 11: "", 12: ""}),
        request("get_partitions_ps_with_auth_req", {2: db, 3: table}),
        positional("get_partition", db, table, one),
        positional("get_partition_with_auth", db, table, one, "user", ["group"]),
        request("get_partition_req", {**catalog, 4: one, 5: write_ids}),
        positional("get_partition_by_name", db, table, names[11]),
        positional("get_partitions", db, table, -1),
        positional("get_partitions", db, table, 13),
        positional("get_partitions_with_auth", db, table, -1, "user", ["group"]),
        request("get_partitions_req", {**catalog, 4: -1, 5: write_ids, **unselected}),
    ]  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_every_call_has_the_answer_of_the_metastore(both: Both, table: str) -> None:
    calls = every_call(both.db, table, both.names(table), both.values(table))
    forwarded = {one.name for one in calls if both.compare(one) is not None}
    assert forwarded == ({"get_partitions_by_names_req"} if table == "bucketed" else set())
    assert {one.name for one in calls} == CALLS.keys() - BY_EXPRESSION


@given(conditions((NUMBERS, WORDS, DAYS)), st.sampled_from([-1, 1, 5, 1000]))
@live
def test_any_filter_has_the_answer_of_the_metastore(both: Both, condition: Condition, most: int) -> None:
    for table in ("plain", "odd"):
        reason = both.compare(positional("get_partitions_by_filter", both.db, table, condition.text, most))
        assert table == "odd" or reason in {None, Reason.NOT_CERTAIN}
    both.compare(positional("get_num_partitions_by_filter", both.db, "plain", condition.text))


@given(st.tuples(*(st.sampled_from(["", "x_y", *texts]) for texts in TEXTS)), st.sampled_from([-1, 3]))
@live
def test_any_partial_specification_has_the_answer_of_the_metastore(
    both: Both, values: tuple[str, ...], most: int
) -> None:
    for table in ("plain", "odd"):
        for name in ("get_partition_names_ps", "get_partitions_ps", "get_partitions_ps_with_auth"):
            both.compare(positional(name, both.db, table, values, most))


@pytest.mark.parametrize(
    "text",
    ["i = 7", "i != 8", "s != 'x_y'", "d = '2020-01-01'", r"s = 'a\b'", "s = 'a b%/c'", "s like 'x_y'", "s = 'b:c'"],
)  # fmt: skip
def test_values_that_metastores_compare_in_their_own_way_are_never_answered_differently(
    both: Both, text: str
) -> None:
    both.compare(positional("get_partitions_by_filter", both.db, "odd", text, -1))


def test_errors_are_the_metastores_own(both: Both) -> None:
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
    "numbers": call("OPAnd", call("OPGreaterThan", NR, constant(6, "int")), call("OPNotEqual", NR, constant(255, "int"))),
    "list": call("In", NR, constant(7, "int"), constant(256, "int"), constant(-1, "int")),
    "not in a list": call("OPNot", call("In", NR, constant(7, "int"), constant(0, "int"))),
    "null": call("OPNull", NR),
    "not null": call("OPNotNull", D),
    "dates": call("OPEqualOrGreaterThan", D, constant("2020-06-18", "date")),
    "or": call("OPOr", call("OPEqual", NR, constant(7, "int")), call("OPEqual", D, constant("1970-01-01", "date"))),
    "nothing": call("OPEqual", NR, constant(12345, "int")),
    "text": call("OPEqual", S, constant("a")),
}  # fmt: skip


@pytest.mark.long
def test_expressions_of_hive_4_have_the_answer_of_the_metastore(both: Both) -> None:
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
