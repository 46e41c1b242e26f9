"""A daemon that replicates all databases of a pattern: those that exist, those that are created later, and
those that are dropped."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from daemon.status.model import DaemonStatus
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.running_daemon import RunningDaemon, configured
from tests.builders.replication.small_workload import ACID, create_source


@pytest.mark.long
def test_databases_that_match_a_pattern_are_replicated_also_when_they_are_created_or_dropped_later(
    stack: Endpoints, source_sql: Session, target_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    first, second, excluded = (f"{database}_{name}" for name in ("a", "b", "tmp"))
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    _replace_policy(daemon, include=f"{database}_*", exclude=excluded)
    for name in (first, excluded):
        _create(source_sql, name)
    with closing(Metastore([stack.target.metastore])) as target:
        with daemon:
            daemon.status_when(lambda status: _follows(status, first))
            _create(source_sql, second)
            daemon.status_when(lambda status: _follows(status, second))
            for name in (first, second):
                source_sql.run(f"insert into {name}.t values (2)")
                _await_applied(daemon, stack, name)
                assert target_sql.rows(f"select id from {name}_r.t order by id") == [("1",), ("2",)]
            verified = daemon.command("verify", f"all.{second}")
            assert verified.returncode == 0, verified.stdout + verified.stderr
            assert daemon.end(signal.SIGTERM) == 0

        _remove_marks(stack, first)
        source_sql.run(f"drop database {first} cascade")
        with daemon:
            eventually(lambda: f"{first}_r" not in target.database_names(), 240)
            status = daemon.status_when(lambda status: _follows(status, second))
            assert daemon.end(signal.SIGTERM) == 0
        assert {each.name for each in status.projections} == {
            f"replication:all.{first}",
            f"replication:all.{second}",
        }
        assert f"{excluded}_r" not in target.database_names()


def _replace_policy(daemon: RunningDaemon, *, include: str, exclude: str) -> None:
    values = yaml.safe_load(daemon.config.read_text())
    del values["policies"]
    values["policy_patterns"] = {
        "all": {
            "source": "lake",
            "target": "dr",
            "databases": {"include": [include], "exclude": [exclude]},
            "target_database": "{database}_r",
            "discover_s": 0.5,
        }
    }
    daemon.config.write_text(yaml.safe_dump(values))


def _create(sql: Session, name: str) -> None:
    create_source(sql, name)
    sql.run(f"create table {name}.t (id int) {ACID}")
    sql.run(f"insert into {name}.t values (1)")


def _remove_marks(stack: Endpoints, database: str) -> None:
    """Let the source drop a database although a policy replicates it."""
    with closing(Metastore([stack.source.metastore])) as source:
        marked = source.get_database(database)
        marked.parameters = {}
        source.alter_database(database, marked)


def _follows(status: DaemonStatus, database: str) -> bool:
    return any(
        each.name == f"replication:all.{database}" and each.state == "following" and each.lag_events == 0
        for each in status.projections
    )


def _await_applied(daemon: RunningDaemon, stack: Endpoints, database: str) -> None:
    with closing(Metastore([stack.source.metastore])) as source:
        newest = source.current_event_id()
    daemon.status_when(
        lambda status: any(
            each.name == f"replication:all.{database}" and (each.event_id or 0) >= newest
            for each in status.projections
        )
    )
