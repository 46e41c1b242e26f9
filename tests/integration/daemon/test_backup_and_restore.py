"""The drill of the operations page: back up a running daemon, lose the state, restore it, and continue."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from handlers.replication.target.fencing import EPOCH
from tests.builders.daemon.running_daemon import RunningDaemon, configured
from tests.builders.replication.replica import build_replica
from tests.builders.replication.small_workload import ACID


@pytest.fixture
def made(stack: Endpoints, topic: str, database: str, tmp_path: Path) -> RunningDaemon:
    return configured(tmp_path, stack, topic=topic, database=database)


def newest(stack: Endpoints) -> int:
    with Metastore([stack.source.metastore]) as source:
        return source.current_event_id()


def epoch(stack: Endpoints, database: str) -> int:
    with Metastore([stack.target.metastore]) as target:
        return int((target.get_database(f"{database}_r").parameters or {})[EPOCH].partition("-")[0])


def differences(stack: Endpoints, database: str) -> list[str]:
    replica = build_replica(
        stack.source.metastore, stack.target.metastore, db=database, roots=[], start=False
    )
    with closing(replica.projection):
        return replica.differences()


@pytest.mark.long
def test_a_restored_daemon_fences_the_former_one_and_continues(
    stack: Endpoints, source_sql: Session, made: RunningDaemon, database: str, tmp_path: Path
) -> None:
    source_sql.run(f"create database {database}")
    source_sql.run(f"create table {database}.t (id int) {ACID}")
    source_sql.run(f"insert into {database}.t values (1)")
    made.bootstrap()
    with made:
        source_sql.run(f"insert into {database}.t values (2)")
        made.applied(newest(stack))
        backup = made.command("backup", str(tmp_path / "backup"), "--json")
        assert backup.returncode == 0, backup.stderr
        names = {file["name"] for file in json.loads(backup.stdout)["files"]}
        assert {"relay-lake.db", "replication-shop.db"} <= names
        refused = made.command("restore", str(tmp_path / "backup"))
        assert (refused.returncode, "state-locked" in refused.stderr) == (1, True)
        source_sql.run(f"insert into {database}.t values (3)")
        made.applied(newest(stack))
        before = epoch(stack, database)

        # The machine is lost; its daemon may still run, without anyone who could stop it.
        second = RunningDaemon(tmp_path / "second", database)
        shutil.copytree(tmp_path, second.directory, ignore=lambda *_: ["state", "second", "backup"])
        text = made.config.read_text().replace(str(made.state_dir), str(second.state_dir))
        second.config.write_text(text)
        restored = second.command("restore", str(tmp_path / "backup"))
        assert restored.returncode == 0, restored.stderr
        with second:
            source_sql.run(f"insert into {database}.t values (4)")
            second.applied(newest(stack))
            assert epoch(stack, database) > before
            former = made.status_when(lambda status: status.projections[0].state == "failed")
            assert former.projections[0].code == "fenced"
            assert differences(stack, database) == []
