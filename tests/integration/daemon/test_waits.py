"""``tideline wait`` with real components: a write at the source is visible on the target, and a partition is
waited for without a call of the metastore."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from tests.builders.daemon.http_client import Api
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.partition_calls import has_waits, partition_calls
from tests.builders.daemon.running_daemon import configured
from tests.builders.replication.small_workload import ACID, create_source


def test_a_script_reads_on_the_replica_what_it_has_written_at_the_source(
    stack: Endpoints, source_sql: Session, target_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    create_source(source_sql, database)
    source_sql.run(f"create table {database}.t (id int) {ACID}")
    daemon = configured(tmp_path, stack, topic=topic, database=database, policy={"bootstrap": "auto"})
    with daemon:
        daemon.status_when(lambda status: status.projections[0].state == "following")
        for number in (1, 2):
            source_sql.run(f"insert into {database}.t values ({number})")
            waited = daemon.command("wait", "--replica", "shop", "--timeout", "50")
            assert (waited.returncode, waited.stderr) == (0, "")
            rows = target_sql.rows(f"select count(*) from {database}_r.t")
            assert [int(count) for (count,) in rows] == [number]
        source_sql.run(f"create database {database}_other")  # an event that concerns no policy
        assert daemon.command("wait", "--replica", "shop", "--timeout", "20").returncode == 0
        assert daemon.command("wait", "--replica", "none").returncode == 5
        never = str(2**40)
        assert daemon.command("wait", "--replica", "shop", "--event", never, "--timeout", "0").returncode == 3
        assert daemon.end() == 0
    assert daemon.command("wait", "--replica", "shop").returncode == 4


def test_a_partition_and_a_range_are_waited_for_without_a_call_of_the_metastore(
    stack: Endpoints, source_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    table = f"{database}.visits"
    create_source(source_sql, database)
    source_sql.run(f"create table {table} (id int) partitioned by (dt string)")
    source_sql.run(f"alter table {table} add partition (dt='2024-01-01')")
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    values = yaml.safe_load(daemon.config.read_text())
    del values["policies"], values["targets"]
    rules = {"tables": [f"{database}.*"], "columns": ["dt"]}
    values["catalog"] = {"lake": {"rules": {"all": rules}, "partitions": {"tables": [f"{database}.*"]}}}
    daemon.config.write_text(yaml.safe_dump(values))
    second = ("--table", table, "--partition", "dt=2024-01-02")
    days = ("--table", table, "--range", "dt", "2024-01-01..2024-01-03")
    with daemon, ThreadPoolExecutor(2) as threads:
        daemon.status_when(lambda status: status.projections[0].state == "following")
        first = daemon.command("wait", "--table", table, "--partition", "dt=2024-01-01", "--timeout", "50")
        assert (first.returncode, first.stderr) == (0, "")
        Api(daemon.state_dir, "timelines").until(table, lambda found: found["timelines"])

        def wait_without_calls() -> bool:
            """Let waits end without a result; a table that was just found may be listed once more."""
            before = partition_calls(daemon.state_dir)
            assert daemon.command("wait", *second, "--timeout", "0").returncode == 3
            assert daemon.command("wait", *days, "--timeout", "0").returncode == 3
            return partition_calls(daemon.state_dir) == before

        for _ in range(3):
            eventually(wait_without_calls)
        before = partition_calls(daemon.state_dir)
        partition = threads.submit(daemon.command, "wait", *second, "--timeout", "50")
        eventually(lambda: has_waits(daemon.state_dir))
        assert partition_calls(daemon.state_dir) == before
        source_sql.run(f"alter table {table} add partition (dt='2024-01-02')")
        assert partition.result().returncode == 0
        assert daemon.command("wait", *days, "--timeout", "50").returncode == 0
