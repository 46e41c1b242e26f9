"""An operator adds a policy, and lets the running daemon bootstrap it: by its state directory and from
elsewhere."""

from __future__ import annotations

import json
import signal
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from daemon.http.actions import FILE
from daemon.status.address import running_daemon
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from handlers.failpoints import VARIABLE
from handlers.metastore.client import Metastore
from tests.builders.daemon.running_daemon import RunningDaemon, configured
from tests.builders.replication.small_workload import ACID


@pytest.mark.long
def test_the_running_daemon_bootstraps_a_policy_on_request_and_refuses_others(
    stack: Endpoints, source_sql: Session, target_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    copy = f"{database}_r"
    add_policy(daemon, "blog", database=f"{database}_blog", target_database=f"{database}_blog_r")
    for db in (database, f"{database}_blog"):
        source_sql.run(f"create database {db}")
        source_sql.run(f"create table {db}.orders (id int) {ACID}")
        source_sql.run(f"insert into {db}.orders values (1)")
    target_sql.run(f"create database {copy}")
    target_sql.run(f"create table {copy}.orders (id int) {ACID}")
    with daemon, closing(Metastore([stack.source.metastore])) as source:
        status = daemon.status_when(
            lambda s: (
                {view.state for view in s.projections} == {"not-bootstrapped"}
                and s.sources[0].relay_state == "following"
            )
        )
        assert status.failed_loops == ()
        assert status.unready_reasons(60.0, ()) == []
        assert {(need.kind, need.command) for need in status.needs_operator} == {
            ("new-policy", "tideline bootstrap shop"),
            ("new-policy", "tideline bootstrap blog"),
        }
        refused(daemon, "retire", "shop", reason="no position")

        address = running_daemon(daemon.state_dir)
        assert address is not None
        where = ("--url", address.url, "--token-file", str(daemon.state_dir / "http.token"))
        done = daemon.command("bootstrap", "shop", "--json", *where)
        assert json.loads(done.stdout) == {"policy": "shop", "reuse_files": False}, done.stderr
        daemon.status_when(lambda s: [loop.code for loop in s.failed_loops] == ["target-diverged"])
        done = daemon.command("bootstrap", "shop", "--reuse-files", "--yes", *where)
        assert "the daemon bootstraps policy shop" in done.stdout, done.stderr

        refused(daemon, "bootstrap", "none", *where, reason="does not follow the policy")
        assert daemon.command("pause", "blog").returncode == 0
        refused(daemon, "bootstrap", "blog", reason="the policy is paused")
        resumed = daemon.command("resume", "blog")
        assert "policy blog is resumed. The policy waits for its bootstrap" in resumed.stdout, resumed.stderr
        assert daemon.command("bootstrap", "blog").returncode == 0
        for name in ("shop", "blog"):
            waited = daemon.command("wait", "--replica", name, "--timeout", "2m")
            assert waited.returncode == 0, waited.stdout + waited.stderr
        newest = source.current_event_id()
        daemon.status_when(
            lambda s: (
                all(v.state == "following" and (v.event_id or 0) >= newest for v in s.projections)
                and not s.needs_operator
                and not s.sections["loads"]
            )
        )
        for db in (copy, f"{database}_blog_r"):
            assert target_sql.rows(f"select id from {db}.orders") == [("1",)]
        refused(daemon, "bootstrap", "shop", *where, reason="already bootstrapped")
        for end in (("retire", "shop"), ("promote", "blog", "--yes")):
            done = daemon.command(*end)
            assert done.returncode == 0, done.stderr
            refused(daemon, "bootstrap", end[1], reason=f"the policy was {end[0].rstrip('e')}ed")
    actions = json.loads((daemon.state_dir / FILE).read_text())
    assert [(each["object"], each["code"]) for each in actions if each["action"] == "bootstrap"] == [
        ("shop", "invalid-request"),
        ("none", "not-found"),
        ("shop", None),
        ("shop", None),
    ]


@pytest.mark.long
@pytest.mark.parametrize("step", ["after-databases", "after-begin", "before-finish"])
def test_a_requested_bootstrap_continues_after_a_kill_of_the_daemon_without_another_request(
    stack: Endpoints,
    source_sql: Session,
    target_sql: Session,
    topic: str,
    database: str,
    tmp_path: Path,
    step: str,
) -> None:
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    source_sql.run(f"create database {database}")
    source_sql.run(f"create table {database}.orders (id int) {ACID}")
    source_sql.run(f"insert into {database}.orders values (1)")
    daemon.environment = {VARIABLE: f"bootstrap.{step}"}
    with daemon:
        daemon.status_when(lambda s: s.projections[0].state == "not-bootstrapped")
        done = daemon.command("bootstrap", "shop")
        assert done.returncode == 0, done.stderr
        assert daemon.process is not None
        assert daemon.process.wait(60) == -signal.SIGKILL
    source_sql.run(f"insert into {database}.orders values (2)")
    daemon.environment = {}
    with daemon, closing(Metastore([stack.source.metastore])) as source:
        daemon.applied(source.current_event_id())
        daemon.status_when(lambda s: not s.needs_operator and not s.sections["loads"])
        assert target_sql.rows(f"select id from {database}_r.orders order by id") == [("1",), ("2",)]


def add_policy(daemon: RunningDaemon, name: str, **settings: str) -> None:
    values = yaml.safe_load(daemon.config.read_text())
    values["policies"][name] = values["policies"]["shop"] | settings
    daemon.config.write_text(yaml.safe_dump(values))


def refused(daemon: RunningDaemon, *command: str, reason: str) -> None:
    done = daemon.command(*command)
    assert done.returncode == 1
    assert reason in done.stderr
