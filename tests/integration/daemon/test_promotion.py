"""An operator promotes a replica: through the running daemon, and without daemon and source."""

from __future__ import annotations

import json
import signal
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from daemon.replica.status.points import POINTS
from daemon.retention.status import RETENTION
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.daemon.running_daemon import RunningDaemon, configured
from tests.builders.replication.small_workload import ACID


@pytest.mark.long
@pytest.mark.parametrize("with_daemon", [True, False], ids=["running-daemon", "source-lost"])
def test_a_replica_is_promoted_by_one_command(
    stack: Endpoints,
    source_sql: Session,
    target_sql: Session,
    topic: str,
    database: str,
    tmp_path: Path,
    with_daemon: bool,
) -> None:
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    copy = f"{database}_r"
    source_sql.run(f"create database {database}")
    source_sql.run(f"create table {database}.orders (id int) {ACID}")
    source_sql.run(f"insert into {database}.orders values (1)")
    daemon.bootstrap()
    with (
        closing(WritingMetastore([stack.source.metastore])) as source,
        closing(Metastore([stack.target.metastore])) as target,
    ):
        with daemon:
            source_sql.run(f"insert into {database}.orders values (2)")
            _, held = source.open_write(database, "orders")
            event_id = source.current_event_id()
            daemon.applied(event_id)
            _shows_point_and_retention(daemon, event_id)
            if with_daemon:
                _promote(daemon, copy, held)
                status = daemon.status_when(lambda status: status.projections[0].state == "promoted")
                assert not status.needs_operator
                assert status.unready_reasons(300, ()) == []
                assert daemon.command("release", "shop", "orders").returncode == 1
            assert daemon.end(signal.SIGTERM) == 0
        if not with_daemon:
            _lose_source(daemon)
            done = _promote(daemon, copy, held)
            assert done["unmarked"] is None, "the source cannot be reached"
        assert "repl.last.id" not in (target.get_database(copy).parameters or {})
        assert target.valid_write_ids([f"{copy}.orders"])[0].open == ()
        target_sql.run(f"insert into {copy}.orders values (3)")
        assert target_sql.rows(f"select id from {copy}.orders order by id") == [("1",), ("2",), ("3",)]
        if with_daemon:
            with daemon:
                daemon.status_when(lambda status: status.projections[0].state == "promoted")


def _shows_point_and_retention(daemon: RunningDaemon, event_id: int) -> None:
    status = daemon.status_when(
        lambda status: (
            RETENTION.of(status)
            and {reader.reader for reader in RETENTION.of(status)[0].readers}
            == {"relay:lake", "replication:shop"}
            and POINTS.of(status)
            and POINTS.of(status)[0].event_id >= event_id
        )
    )
    (point,) = POINTS.of(status)
    assert len(point.open_writes["orders"]) == 1
    (source,) = RETENTION.of(status)
    assert (source.log_s, source.files_s, source.topic_s) == (864_000, 864_000, 604_800)
    assert not [action for action in status.needs_operator if action.kind == "retention"]
    text = daemon.command("status").stdout
    assert "RETENTION" in text
    assert "POINT" in text


def _promote(daemon: RunningDaemon, copy: str, held: int) -> dict[str, object]:
    planned = json.loads(daemon.command("promote", "shop", "--dry-run", "--json").stdout)
    assert (planned["database"], planned["aborted"], planned["open_writes"]) == (copy, 1, {"orders": [held]})
    assert planned["time_s"] is not None
    assert daemon.command("promote", "shop").returncode == 1, "nobody confirmed it"
    promoted = daemon.command("promote", "shop", "--yes", "--json")
    assert promoted.returncode == 0, promoted.stderr
    done: dict[str, object] = json.loads(promoted.stdout)
    assert (done["event_id"], done["write_ids"]) == (planned["event_id"], planned["write_ids"])
    assert done["incomplete"] == []
    return done


def _lose_source(daemon: RunningDaemon) -> None:
    """Let the configuration name a source and a broker that nobody runs."""
    values = yaml.safe_load(daemon.config.read_text())
    values["sources"]["lake"]["metastore"] = ["thrift://127.0.0.1:9"]
    values["kafka"]["bootstrap"] = "127.0.0.1:9"
    daemon.config.write_text(yaml.safe_dump(values))
