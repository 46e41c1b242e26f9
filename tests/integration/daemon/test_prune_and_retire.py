"""An operator releases a table, drops tables that left a policy, and ends the policy: the commands on real
components."""

from __future__ import annotations

import json
import signal
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from daemon.replica.status.left import LEFT
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.daemon.running_daemon import RunningDaemon, configured
from tests.builders.replication.small_workload import ACID, create_source


@pytest.mark.long
def test_a_table_is_released_tables_that_left_are_dropped_and_the_policy_is_retired(
    stack: Endpoints, source_sql: Session, target_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    copy = f"{database}_r"
    create_source(source_sql, database)
    for table in ("kept", "left_a", "left_b"):
        source_sql.run(f"create table {database}.{table} (id int) {ACID}")
    source_sql.run(f"insert into {database}.kept values (1)")
    daemon.bootstrap()
    _exclude(daemon, "left_*")
    with (
        closing(Metastore([stack.source.metastore])) as source,
        closing(Metastore([stack.target.metastore])) as target,
    ):
        location = Path(urlsplit(target.get_table(copy, "left_a").sd.location or "").path)
        with daemon:
            _release(daemon, source, target, source_sql, database)
            _prune(daemon, target, copy, location)
            assert target_sql.rows(f"select id from {copy}.kept order by id") == [("1",), ("2",)]
            assert "shop" in (source.get_database(database).parameters or {})["repl.source.for"]
            retired = daemon.command("retire", "shop", "--json")
            done = json.loads(retired.stdout)
            assert done == {"policy": "shop", "aborted": 0, "unmarked": True}
            source_sql.run(f"insert into {database}.kept values (3)")
            daemon.status_when(lambda status: status.projections[0].state == "retired")
            assert daemon.end(signal.SIGTERM) == 0
        with daemon:
            daemon.status_when(lambda status: status.projections[0].state == "retired")
            assert daemon.end(signal.SIGTERM) == 0

        marked = source.get_database(database)
        assert marked.parameters == {"repl.source.for": "tests"}, "the test's own mark stays"
        again = daemon.command("retire", "shop")
        assert "there was no mark" in again.stdout
        following = daemon.command("release", "shop", "kept")
        assert following.returncode == 1
        assert "retired" in following.stderr
        marked.parameters = {}
        source.alter_database(database, marked)
        source_sql.run(f"drop database {database} cascade")
        assert target_sql.rows(f"select id from {copy}.kept order by id") == [("1",), ("2",)], (
            "the replica stays"
        )


def _exclude(daemon: RunningDaemon, pattern: str) -> None:
    values = yaml.safe_load(daemon.config.read_text())
    values["policies"]["shop"]["tables"] = {"exclude": [pattern]}
    daemon.config.write_text(yaml.safe_dump(values))


def _release(
    daemon: RunningDaemon, source: Metastore, target: Metastore, source_sql: Session, database: str
) -> None:
    """Quarantine a table by an alteration that the target refuses, remove the cause, and release it."""
    daemon.status_when(lambda status: status.projections[0].state == "following")
    _rename(target, f"{database}_r", "kept", "away")
    source_sql.run(f"alter table {database}.kept set tblproperties ('note'='1')")
    failed = daemon.status_when(lambda status: status.projections[0].failures).projections[0].failures[0]
    _rename(target, f"{database}_r", "away", "kept")
    source_sql.run(f"insert into {database}.kept values (2)")
    daemon.applied(source.current_event_id())
    released = daemon.command("release", "shop", "kept")
    assert f"kept: resumes at event {failed.event_id}" in released.stdout, released.stderr
    daemon.status_when(lambda status: not status.sections["loads"] and not status.projections[0].failures)


def _rename(target: Metastore, db: str, old: str, new: str) -> None:
    table = target.get_table(db, old)
    table.tableName = new
    target.alter_table(db, old, table)


def _prune(daemon: RunningDaemon, target: Metastore, copy: str, location: Path) -> None:
    status = daemon.status_when(lambda status: status.sections["left"])
    (left,) = LEFT.of(status)
    assert [each.table for each in left.tables] == [f"{copy}.left_a", f"{copy}.left_b"]
    assert left.command == "tideline prune shop"
    assert [(each.kind, each.command) for each in status.needs_operator] == [
        ("left-table", "tideline prune shop")
    ]
    assert f"{copy}.left_a" in daemon.command("status").stdout

    shown = json.loads(daemon.command("prune", "shop", "--dry-run", "--json").stdout)
    assert [(drop["table"], drop["deletes_data"]) for drop in shown["drops"]] == [
        ("left_a", True),
        ("left_b", True),
    ]
    assert daemon.command("prune", "shop", "left_a").returncode == 1, "nobody confirmed it"
    assert daemon.command("prune", "shop", "kept", "--yes").returncode == 1, "the policy replicates it"
    assert sorted(target.table_names(copy)) == ["kept", "left_a", "left_b"]
    dropped = daemon.command("prune", "shop", "left_a", "--yes")
    assert "dropped: left_a" in dropped.stdout, dropped.stderr
    assert sorted(target.table_names(copy)) == ["kept", "left_b"]
    assert not location.exists()
    assert json.loads(daemon.command("prune", "shop", "--yes", "--json").stdout)["dropped"] == ["left_b"]
    daemon.status_when(lambda status: not status.sections["left"] and not status.needs_operator)
    assert target.table_names(copy) == ["kept"]
