"""The daemon runs the Spark driver of a flat table: it restarts a killed driver, and stops it when the daemon
ends."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.flat.status import FLATS
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from tests.builders.components.processes import group
from tests.builders.daemon.http_client import asked, told_port
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.running_daemon import RunningDaemon
from tests.builders.daemon.tideline_process import write_config


HOUR_S = 3_600
HOUR = int(time.time()) // HOUR_S * HOUR_S - 3 * HOUR_S
START_S = 240.0
"""A JVM's start on a machine that has other things to do."""


@pytest.fixture
def base(source: ClusterEndpoints, database: str) -> Path:
    path = Path(source.external) / database
    (path / "landing").mkdir(parents=True)
    return path


@pytest.fixture
def daemon(
    source: ClusterEndpoints, source_sql: Session, database: str, base: Path, tmp_path: Path
) -> Iterator[RunningDaemon]:
    source_sql.run(f"CREATE DATABASE {database}")
    values = {
        "targets": {"lake": {"metastore": [source.metastore]}},
        "flat": {
            "events": {
                "table": f"{database}.events_flat",
                "raw_table": f"{database}.events",
                "cluster": "lake",
                "location": f"file:{base}/table",
                "source": {"kind": "directory", "path": f"file:{base}/landing"},
                "event_time": {"key": "epoch", "lateness_s": 0},
                "rules": {"whitelist": ["epoch", "uuid", "action.name"]},
                "view": "events_old",
                "trigger_s": 0.2,
                "spark": {"master": "local[2]", "driver_memory": "1g"},
            }
        },
    }
    write_config(tmp_path, values)
    with RunningDaemon(tmp_path, database) as running:
        yield running


def land(base: Path, name: str, hour: int, count: int) -> None:
    rows = [
        {"epoch": HOUR + hour * HOUR_S + n, "uuid": f"{name}-{n}", "action": {"name": f"a{n % 3}"}}
        for n in range(count)
    ]
    hidden = base / "landing" / f".{name}"
    hidden.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    hidden.rename(base / "landing" / f"{name}.json")


def get(daemon: RunningDaemon, path: str) -> str:
    return asked(told_port(daemon.state_dir), path).text


@pytest.mark.long
def test_rows_are_written_once_although_the_driver_is_killed_and_it_ends_with_the_daemon(
    daemon: RunningDaemon, base: Path, database: str, source_sql: Session
) -> None:
    table = f"{database}.events_flat"
    land(base, "a", 0, 500)
    (flat,) = FLATS.of(daemon.status_when(lambda s: FLATS.of(s)[0].rows == 500, START_S))
    assert (flat.table, flat.state, flat.columns, flat.misfits) == (table, "following", 3, 0)
    assert 'tideline_flat_rows_total{flat="events"} 500.0' in get(daemon, "/metrics")
    assert json.loads(get(daemon, "/readyz"))["ok"] is True
    assert flat.pid is not None
    assert len(group(flat.pid)) >= 2, "Python and its JVM"

    land(base, "b", 1, 300)
    os.kill(flat.pid, signal.SIGKILL)
    eventually(lambda: not group(flat.pid or 0))
    land(base, "c", 1, 200)
    recovered = daemon.status_when(
        lambda s: (
            FLATS.of(s)[0].restarts and (FLATS.of(s)[0].batch or 0) >= 1 and FLATS.of(s)[0].rows >= 1_000
        ),
        START_S,
    )
    (again,) = FLATS.of(recovered)
    assert again.pid not in {None, flat.pid}
    query = f"SELECT count(*), count(DISTINCT uuid), count(`action/name`), sum(epoch - {HOUR}) FROM {table}"
    total = sum(range(500)) + sum(HOUR_S + n for count in (300, 200) for n in range(count))
    assert source_sql.rows(query) == [("1000", "1000", "1000", str(total))]
    assert source_sql.rows(f"SELECT count(uuid) FROM {database}.events_old") == [("1000",)]
    page = get(daemon, f"/flat/{table}")
    assert "action/name" in page
    assert 'style="width:100.0%"' in page

    assert daemon.process is not None
    daemon.process.kill()
    eventually(lambda: not group(again.pid or 0))
