"""An operator pauses, resumes and repairs a policy through the running daemon."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from daemon.process.inbox import send_request
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.daemon.running_daemon import configured
from tests.builders.replication.small_workload import ACID, create_source


def test_a_policy_is_paused_resumed_and_repaired_while_the_daemon_runs(
    stack: Endpoints,
    source_sql: Session,
    target_sql: Session,
    topic: str,
    database: str,
    tmp_path: Path,
) -> None:
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    daemon.bootstrap()
    with daemon, closing(Metastore([stack.source.metastore])) as source:
        daemon.status_when(lambda status: status.projections[0].state == "following")
        create_source(source_sql, database)
        source_sql.run(f"create table {database}.orders (id int) {ACID}")
        source_sql.run(f"insert into {database}.orders values (1)")
        daemon.applied(source.current_event_id())

        (policy,) = [path.name for path in (daemon.state_dir / "requests").glob("replication-*")]
        name = policy.removeprefix("replication-")
        paused = daemon.command("pause", name, "--json")
        assert json.loads(paused.stdout)["paused_since_s"] is not None, paused.stderr
        status = daemon.status_when(lambda status: status.projections[0].state == "paused")
        assert [action.command for action in status.needs_operator] == [f"tideline resume {name}"]
        source_sql.run(f"insert into {database}.orders values (2)")
        assert daemon.command("release", name, "orders").returncode == 1, "the table needs no release"
        answer = send_request(
            daemon.state_dir / "requests" / policy,
            {"do": "load", "tables": ["orders"], "reason": "repair"},
            60,
        )
        paused_text = f"The policy is paused: run 'tideline resume {name}'."
        assert answer == {"tables": ["orders"], "waits_for": paused_text}
        resumed = daemon.command("resume", name)
        assert resumed.stdout == f"policy {name} is resumed\n", resumed.stderr
        assert daemon.command("resume", name).stdout == f"policy {name} was not paused\n"
        source_sql.run(f"insert into {database}.orders values (3)")
        daemon.applied(source.current_event_id())
        daemon.status_when(lambda status: not status.sections["loads"])
        daemon.applied(source.current_event_id())
        (replica,) = [row[0] for row in target_sql.rows("show databases") if row[0].startswith(database)]
        assert target_sql.rows(f"select id from {replica}.orders order by id") == [("1",), ("2",), ("3",)]
        assert daemon.status_when(lambda _: True).needs_operator == ()
