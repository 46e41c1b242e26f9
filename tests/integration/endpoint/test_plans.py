"""What clients get through an endpoint with an index is what they get from the metastore:
filters, and the plans of Spark.

Spark's client of Hive 2.3 cannot use this metastore directly. Its plans are compared with those of Spark
through an endpoint that has no index, and its answers with those of the same session without pruning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from daemon.endpoint.protocol.streams import Transport
from daemon.endpoint.settings import EndpointSettings
from daemon.endpoint.upstream import Upstream
from daemon.endpoint.verification.verifier import is_same_answer
from dev.fixtures.hive_tables import a_partition, a_table
from dev.stack.hive.servers import Metastore as MetastoreServer
from handlers.metastore.addresses import Address
from handlers.metastore.client import Metastore
from tests.builders.endpoint.partition_requests import positional
from tests.builders.endpoint.served import Served
from tests.builders.endpoint.spark_session import spark_at
from tests.builders.partitions.filter_contract import DAYS, NUMBERS, WORDS
from tests.builders.partitions.indexed_tables import Condition, conditions
from tests.builders.partitions.metastore_and_index import COLUMNS, sixty_rows


pytestmark = pytest.mark.long

FILTERS = 1_000
CONDITIONS = (
    "dt = '2024-01-03'",
    "dt >= '2024-01-05' AND hr = 2",
    "hr IN (1, 3)",
    "hr < 2 OR dt = '2024-01-09'",
    "dt LIKE '2024-01-0%' AND hr > 3",
    "dt IS NOT NULL AND hr != 1",
    "dt BETWEEN '2024-01-02' AND '2024-01-04'",
    "dt NOT IN ('2024-01-01', '2024-01-02')",
    "substr(dt, 9, 2) = '07'",
    "hr = 100",
)
QUERIES = ("SELECT id FROM {} WHERE {} ORDER BY id", "SELECT count(*), max(dt) FROM {} WHERE {}")
_VARYING = re.compile(r"#\d+L?|plan_id=\d+")
"""Numbers that Spark draws anew for each plan."""


@pytest.fixture(scope="module")
def served(
    metastore: MetastoreServer, kafka: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    made = Served(metastore.uri, kafka, tmp_path_factory.mktemp("plans"))
    made.start()
    yield made
    made.stop()


def test_any_of_a_thousand_filters_has_the_answer_of_the_metastore(served: Served) -> None:
    table = a_table(served.db, "filtered", partition_keys=[key for key, _ in COLUMNS])
    for key, (_, declared) in zip(table.partitionKeys or [], COLUMNS, strict=True):
        key.type = declared
    with closing(Metastore([served.metastore])) as client:
        client.create_table(table)
        known = client.get_table(served.db, "filtered")
        client.add_partitions(served.db, "filtered", [a_partition(known, *row) for row in sixty_rows()])
    direct = connect(Address.parse(served.metastore))
    through = connect(Address("127.0.0.1", served.port))
    before = served.endpoint_when(lambda _: True)

    @given(conditions((NUMBERS, WORDS, DAYS)))
    @settings(max_examples=FILTERS, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def compare(condition: Condition) -> None:
        request = positional("get_partitions_by_filter", served.db, "filtered", condition.text, -1)
        theirs, ours = direct.exchange(request), through.exchange(request)
        assert ours.header == theirs.header
        assert is_same_answer(ours.body, theirs.body, request.name)

    with closing(direct.peer), closing(through.peer):
        compare()
    after = served.endpoint_when(lambda found: calls(found) >= calls(before) + FILTERS)
    assert after["answered"] - before["answered"] > FILTERS / 2, after["reasons"]
    assert after["differing"] == []


def connect(address: Address) -> Upstream:
    return Upstream(EndpointSettings(metastores=(address,)), Transport.BUFFERED)


def calls(found: dict[str, int]) -> int:
    return found["answered"] + found["not_answered"]


def test_spark_plans_the_same_queries_to_the_same_plans_and_the_answers_without_pruning(
    served: Served, endpoint: int, tmp_path: Path
) -> None:
    table = f"{served.db}.visits"
    rows = ", ".join(f"({at}, '2024-01-{at % 9 + 1:02}', {at % 5})" for at in range(90))
    with (
        spark_at(f"thrift://127.0.0.1:{endpoint}", tmp_path / "forwarded") as forwarded,
        spark_at(f"thrift://127.0.0.1:{served.port}", tmp_path / "indexed") as indexed,
    ):
        forwarded.run(f"CREATE TABLE {table} (id INT) PARTITIONED BY (dt STRING, hr INT) STORED AS ORC")
        forwarded.run(f"INSERT INTO {table} PARTITION (dt, hr) VALUES {rows}")
        before = served.endpoint_when(lambda _: True)["answered"]
        queries = [form.format(table, one) for one in CONDITIONS for form in QUERIES]
        answers = {query: indexed.ask(query) for query in queries}
        for query in queries:
            theirs, ours = forwarded.ask(query), answers[query]
            assert ours["rows"] == theirs["rows"], query
            assert _VARYING.sub("", ours["plan"]) == _VARYING.sub("", theirs["plan"]), query
        indexed.run("SET spark.sql.hive.metastorePartitionPruning=false")
        for query in queries:
            assert indexed.run(query) == answers[query]["rows"], query
        assert indexed.run(f"SHOW PARTITIONS {table}") == forwarded.run(f"SHOW PARTITIONS {table}")
    found = served.endpoint_when(lambda found: found["answered"] > before + len(CONDITIONS))
    assert found["differing"] == []
