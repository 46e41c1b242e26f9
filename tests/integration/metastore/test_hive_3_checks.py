"""``tideline config check --live`` with a real source of Hive 3.1."""

from __future__ import annotations

import time

import pytest

from daemon.config.model import Config
from daemon.sources.checks.hive_settings import duration_s
from daemon.sources.checks.live_checks import live_problems
from daemon.sources.checks.relay_lag import check_lag
from dev.stack.cluster import HiveCluster
from dev.stack.endpoints import ClusterEndpoints
from handlers.metastore.client import Metastore
from tests.builders.components.hive_3 import SELDOM, stream
from tests.builders.daemon.assembly import config_of
from tests.builders.kafka.relay_and_readers import Stream
from tests.builders.replication.small_workload import create_source


pytestmark = [pytest.mark.old_hive, pytest.mark.long]

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.fixture
def config(hive_3: HiveCluster, target: ClusterEndpoints, kafka: str, topic: str, database: str) -> Config:
    layout = hive_3.metastore.layout
    roots = [f"file:{root}" for root in (layout.warehouse, layout.external, layout.cmroot)]
    policy = {"source": "lake", "target": "dr", "database": database}
    return config_of(
        {
            "sources": {"lake": {"metastore": [hive_3.metastore.uri], "topic": topic, "read_roots": roots}},
            "targets": {"dr": {"metastore": [target.metastore]}},
            "policies": {"shop": policy},
            "kafka": {"bootstrap": kafka},
        }
    )


def read_problems(config: Config) -> dict[str, str]:
    """Return the reasons of the source's warnings by setting; it has nothing worse."""
    found = [each for each in live_problems(config) if each.place == "source lake"]
    assert all(each.warning for each in found), found
    return {each.key: each.reason for each in found}


def test_writers_that_do_not_log_what_they_write_and_databases_whose_files_are_not_kept_are_reported(
    hive_3: HiveCluster, database: str, config: Config
) -> None:
    with hive_3.sql() as sql:
        sql.run(f"create database {database}")
        assert f"repl.source.for of {database}" in read_problems(config)
        sql.run(f"drop database {database}")
        create_source(sql, database)
        assert f"repl.source.for of {database}" not in read_problems(config)
        sql.run(
            f"create table {database}.s (k int, v string) partitioned by (dt string) "
            f"clustered by (k) into 1 buckets {ACID}"
        )
        sql.run(f"insert into {database}.s partition (dt = 'old') values (1, 'x')")
        sql.run("set hive.metastore.dml.events=false")
        sql.run(f"insert into {database}.s partition (dt = 'old') values (2, 'y')")
    stream(hive_3, database, "s", ["3,z,old"])
    problems = read_problems(config)
    assert "logged no INSERT" in problems["hive.metastore.dml.events"]
    assert "logged no event of their table" in problems["notification log"]


def test_a_relay_that_is_further_behind_than_the_compactor_waits_is_reported(
    hive_3: HiveCluster, database: str, config: Config, kafka: str, topic: str
) -> None:
    source = config.sources["lake"]
    half_s = duration_s(SELDOM["hive.compactor.check.interval"]) / 2
    stream = Stream(kafka, topic)
    with Metastore([hive_3.metastore.uri]) as metastore, hive_3.sql() as sql:

        def lag_after(seconds: float) -> list[str]:
            found = check_lag(metastore, "source lake", config, source, lambda: time.time() + seconds)
            return [each.reason for each in found]

        sql.run(f"create database {database}")
        assert lag_after(half_s) == [], "nothing is relayed yet"
        stream.topic.ensure()
        relayed = metastore.current_event_id()
        head = b'{"eventId":%d,"part":0,"parts":1,"eventTime":1,"eventType":"X","message":{}}'
        stream.produce([head % relayed])
        assert lag_after(half_s) == [], "all is relayed"
        sql.run(f"create table {database}.t (k int)")
        assert lag_after(0) == []
        (reason,) = lag_after(half_s + 1)
        assert reason.startswith(
            "has been behind for more than half of hive.compactor.check.interval, 3600 s"
        )
