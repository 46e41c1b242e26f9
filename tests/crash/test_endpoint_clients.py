"""A Spark session and a SQL engine of Hive 4 work through the endpoint while it is killed,
between their statements and within them.

Both clients connect again and repeat the call, so every statement must succeed, take effect once, and give
the answer that the metastore itself gives, with answers from the index and without an index. Statements that
cannot be repeated have IF NOT EXISTS: a client cannot know whether a call was applied whose answer is lost,
and Hive's clients repeat it. A metastore that is killed has the same effect, for Hive's locks as well, which
need another attempt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dev.stack import cli
from dev.stack.errors import SqlFailed
from dev.stack.hive.servers import Metastore, SqlEngine
from dev.stack.hive.settings import ClusterSettings
from dev.stack.hive.sql_session import Session
from dev.stack.servers.kafka import Kafka
from handlers.metastore.client import Metastore as Client
from tests.builders.daemon.running_daemon import RunningDaemon
from tests.builders.daemon.tideline_process import kafka_settings, write_config
from tests.builders.endpoint.endpoint_process import EndpointProcess
from tests.builders.endpoint.spark_session import spark_at


pytestmark = pytest.mark.crash
REPETITIONS = 20
KILLS_WITHIN = 5
"""Kills while statements run, however fast the machine is."""
PERSISTENT = {
    "hive.metastore.connect.retries": "60",
    "hive.metastore.failure.retries": "60",
    "hive.metastore.client.connect.retry.delay": "1s",
    "hive.exec.dynamic.partition.mode": "nonstrict",
    "hive.txn.timeout": "60s",
    "metastore.txn.timeout": "60s",
    "metastore.acid.housekeeper.interval": "5s",
    "hive.lock.sleep.between.retries": "2s",
}
"""How a client gets over a restart of its metastore. Hive's defaults are one repetition and three attempts to
connect. A transaction whose abort was lost holds its locks until its time-out, by default for five
minutes."""


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    cli.fetch_all()
    server = Metastore(tmp_path_factory.mktemp("hive"), settings=ClusterSettings(extra=PERSISTENT))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    broker = Kafka(tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(params=["alone", "indexed"])
def endpoint(
    request: pytest.FixtureRequest, metastore: Metastore, tmp_path: Path
) -> Iterator[EndpointProcess]:
    """An endpoint without an index, and one that answers from the index which a daemon maintains."""
    process = EndpointProcess(tmp_path, metastore.uri)
    with ExitStack() as stack:
        if request.param == "indexed":
            broker: Kafka = request.getfixturevalue("kafka")
            process.serve_source(write_settings(tmp_path, process, metastore, broker), "lake")
            stack.enter_context(RunningDaemon(tmp_path, "all"))
        process.start()
        stack.callback(process.stop)
        yield process
        assert process.metric("differing_tables") == 0
        if request.param == "indexed":
            assert process.answered() > 0
    assert "a session failed" not in process.log.read_text()


def write_settings(directory: Path, endpoint: EndpointProcess, metastore: Metastore, kafka: Kafka) -> Path:
    """Write the settings of a daemon that indexes every table; all answers of the endpoint are compared with
    the metastore's."""
    topic = f"index-{endpoint.port}"
    settings = {
        "sources": {"lake": {"metastore": [metastore.uri], "topic": topic}},
        "kafka": kafka_settings(kafka.bootstrap, topic),
        "catalog": {"lake": {"partitions": {"tables": ["*.*"]}}},
        "serve": {"lake": {"run": False, "listen": endpoint.listen, "verify_ratio": 1.0}},
    }
    return write_config(directory, settings)


def spark_work(run: Callable[[str], list[list[str]]], db: str, round_: int) -> None:
    """Create, insert, prune, alter and drop; assert every answer."""
    table = f"{db}.visits_{round_}"
    run(f"CREATE TABLE IF NOT EXISTS {table} (id INT) PARTITIONED BY (dt STRING) STORED AS ORC")
    run(f"INSERT INTO {table} PARTITION (dt) VALUES (1, '2024-01-01'), (2, '2024-01-02'), (3, '2024-01-03')")
    assert run(f"SELECT id FROM {table} WHERE dt >= '2024-01-02' ORDER BY id") == [["2"], ["3"]]
    run(f"INSERT INTO {table} PARTITION (dt = '2024-01-02') VALUES (4)")
    assert run(f"SELECT id FROM {table} WHERE dt = '2024-01-02' ORDER BY id") == [["2"], ["4"]]
    drop_persistently(run, f"ALTER TABLE {table} DROP IF EXISTS PARTITION (dt = '2024-01-01')")
    assert run(f"SHOW PARTITIONS {table}") == [["dt=2024-01-02"], ["dt=2024-01-03"]]
    run(f"ALTER TABLE {table} SET TBLPROPERTIES ('round' = '{round_}')")


def drop_persistently(run: Callable[[str], list[list[str]]], statement: str) -> None:
    """Drop a partition. Spark looks whether it exists; if the answer to its drop is lost, Hive's client
    repeats the call, which then fails."""
    try:
        run(statement)
    except AssertionError as error:
        if "doesn't exist" not in str(error):
            raise
        run(statement)


class Persistent:
    """Runs Hive statements as a user does who repeats what failed. Hive's lock manager does not repeat its
    calls."""

    def __init__(self, session: Session, before: Callable[[], None] = lambda: None) -> None:
        self._session = session
        self._before = before

    def __call__(self, sql: str, *, applied: str | None = None) -> list[tuple[str, ...]]:
        """Run a statement until it succeeds; ``applied`` counts its rows if it must not be repeated after it
        took effect."""
        self._before()
        for _ in range(REPETITIONS):
            try:
                return self._session.rows(sql)
            except SqlFailed as error:
                if not re.search("metastore|lock|Connection", str(error)):
                    raise
            if applied is not None and self(applied) != [("0",)]:
                return []
        pytest.fail(f"{sql} never succeeded")


def hive_work(run: Persistent, db: str, round_: int) -> None:
    """DDL, inserts, ACID writes and partition pruning; assert every answer."""
    table, plain = f"{db}.acid_{round_}", f"{db}.plain_{round_}"
    count = f"select count(*) from {table} where id"
    run(
        f"create table if not exists {table} (id int, v string) partitioned by (ds string) stored as orc "
        "tblproperties ('transactional' = 'true')"
    )
    values = "(1, 'a', '2024-01-01'), (2, 'b', '2024-01-02')"
    run(f"insert into {table} partition (ds) values {values}", applied=f"{count} = 1")
    run(f"insert into {table} partition (ds = '2024-01-02') values (3, 'c')", applied=f"{count} = 3")
    run(f"update {table} set v = 'x' where id = 2")
    run(f"delete from {table} where id = 1")
    assert run(f"select id, v from {table} where ds = '2024-01-02' order by id") == [("2", "x"), ("3", "c")]
    assert run(f"select count(*) from {table}") == [("2",)]
    run(f"create external table if not exists {plain} (id int) partitioned by (ds string) stored as orc")
    copied = f"select count(*) from {plain} where id = 3"
    run(f"insert into {plain} partition (ds) select id, ds from {table}", applied=copied)
    run(f"alter table {plain} add if not exists partition (ds = '2024-02-01')")
    run(f"alter table {plain} drop if exists partition (ds < '2024-01-02')")
    assert run(f"show partitions {plain}") == [("ds=2024-01-02",), ("ds=2024-02-01",)]
    assert run(f"select id from {plain} where ds like '2024-01%' order by id") == [("2",), ("3",)]


def work_while_killed(endpoint: EndpointProcess, work: Callable[[int], None]) -> int:
    """Work in rounds, from the second on, until the endpoint was killed often enough meanwhile; return the
    last round."""
    last, enough = 1, endpoint.kills + KILLS_WITHIN
    with endpoint.killed_again_and_again(1.0, 4.0):
        while endpoint.kills < enough:
            last += 1
            work(last)
    return last


def test_a_spark_session_works_through_an_endpoint_that_is_killed_between_and_within_statements(
    metastore: Metastore, endpoint: EndpointProcess, tmp_path: Path
) -> None:
    with spark_at(endpoint.uri, tmp_path) as spark:
        db = f"spark_{endpoint.port}"
        spark.run(f"CREATE DATABASE {db} LOCATION '{(tmp_path / 'db').as_uri()}'")

        def run_after_kill(statement: str) -> list[list[str]]:
            endpoint.kill_and_start()
            return spark.run(statement)

        spark_work(run_after_kill, db, 1)
        last = work_while_killed(endpoint, lambda round_: spark_work(spark.run, db, round_))
        assert spark.run(f"SELECT id FROM {db}.visits_{last} WHERE dt > '2024-01-02'") == [["3"]]
    with Client(metastore.uri) as direct:
        for round_ in range(1, last + 1):
            table = direct.get_table(db, f"visits_{round_}")
            assert table.parameters is not None
            assert table.parameters["round"] == str(round_)
            names = direct.partition_names(db, f"visits_{round_}")
            assert names == ["dt=2024-01-02", "dt=2024-01-03"]


def test_a_sql_engine_of_hive_4_works_through_an_endpoint_that_is_killed_between_and_within_statements(
    metastore: Metastore, endpoint: EndpointProcess
) -> None:
    through = SqlEngine(metastore, metastore_uri=endpoint.uri)
    through.start()
    try:
        with Session.connect(through.address) as session:
            db = f"hive_{endpoint.port}"
            session.run(f"create database {db}")
            hive_work(Persistent(session, endpoint.kill_and_start), db, 1)
            last = work_while_killed(endpoint, lambda round_: hive_work(Persistent(session), db, round_))
            answers = _read(session, db, last)
    finally:
        through.stop()
    direct = SqlEngine(metastore)
    direct.start()
    try:
        with Session.connect(direct.address) as session:
            assert _read(session, db, last) == answers
    finally:
        direct.stop()


def _read(session: Session, db: str, last: int) -> list[list[tuple[str, ...]]]:
    """Return what all rounds left behind, with the open transactions."""
    tables = [f"{db}.{kind}_{round_}" for round_ in range(1, last + 1) for kind in ("acid", "plain")]
    questions = [
        *(f"select * from {each} order by id" for each in tables),
        *(f"show partitions {each}" for each in tables),
    ]
    return [session.rows(each) for each in questions]
