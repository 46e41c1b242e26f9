"""The daemon's image replicates a database of a real source, as a container of the chart would
(``make docker-test``)."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest

from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.components.images import ContainedDaemon, build_daemon_image
from tests.builders.daemon.running_daemon import configured
from tests.builders.replication.small_workload import ACID, PLAIN


pytestmark = pytest.mark.docker


def test_a_container_replicates_and_goes_on_after_a_stop_and_a_kill(
    stack: Endpoints, source_sql: Session, target_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    image = build_daemon_image()
    source_sql.run(f"create database {database}")
    source_sql.run(f"create table {database}.orders (id int) {ACID}")
    source_sql.run(f"create table {database}.notes (text string) {PLAIN}")
    source_sql.run(f"insert into {database}.orders values (1)")
    source_sql.run(f"insert into {database}.notes values ('a')")
    made = configured(tmp_path, stack, topic=topic, database=database, policy={"bootstrap": "auto"})
    daemon = ContainedDaemon(made.directory, database, image=image, mounts=(Path(stack.directory),))
    checked = daemon.command("config", "check", "--live")
    assert checked.returncode == 0, checked.stdout + checked.stderr

    def insert(value: int) -> None:
        source_sql.run(f"insert into {database}.orders values ({value})")
        with closing(Metastore(stack.source.metastore)) as source:
            daemon.applied(source.current_event_id(), deadline_s=60)

    daemon.start()
    insert(2)
    assert daemon.end(signal.SIGTERM) == 0
    with daemon:
        insert(3)  # and the block's end kills it
    with daemon:
        insert(4)
        rows = target_sql.rows(f"select id from {database}_r.orders order by id")
        assert rows == [("1",), ("2",), ("3",), ("4",)]
        assert target_sql.rows(f"select * from {database}_r.notes") == [("a",)]
        verified = daemon.command("verify", "shop")
        assert verified.returncode == 0, verified.stdout + verified.stderr
