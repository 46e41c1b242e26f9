"""The guide to dbt and Dagster works as it stands on its page: both begin once a partition is there.

``TIDELINE_DBT_DAGSTER`` names the directory with the programs of a separate environment: ``dbt`` with the
adapter for DuckDB, and ``python`` with Dagster.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from daemon.status.address import running_daemon
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from tests.builders.components.page_runner import DOCS
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.partition_calls import has_waits
from tests.builders.daemon.running_daemon import RunningDaemon, configured
from tests.builders.daemon.tideline_process import COMMAND
from tests.builders.replication.small_workload import create_source


PROGRAMS = os.environ.get("TIDELINE_DBT_DAGSTER")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        PROGRAMS is None,
        reason="no dbt and Dagster: set TIDELINE_DBT_DAGSTER to the directory with their programs",
    ),
]
EVALUATE = """
import sys
import dagster
import visits

definitions = dagster.Definitions([visits.visits], sensors=[visits.next_day])
with dagster.DagsterInstance.get() as instance:
    cursor = sys.argv[1] or None
    context = dagster.build_sensor_context(instance=instance, cursor=cursor, definitions=definitions)
    result = visits.next_day(context)
    for each in result.run_requests or ():
        dagster.materialize([visits.visits], partition_key=each.partition_key, instance=instance)
    print(result.cursor, sorted(instance.get_materialized_partitions(dagster.AssetKey("visits"))))
"""
"""Evaluates the sensor once, as Dagster does, and runs what it requests."""
PROJECT = {"name": "visits", "version": "1.0", "profile": "local", "model-paths": ["models"]}
PROFILE = {"local": {"target": "dev", "outputs": {"dev": {"type": "duckdb", "path": "visits.duckdb"}}}}


def from_guide(title: str, table: str) -> str:
    page = (DOCS / "guides/dbt-dagster.md").read_text()
    found = re.search(rf'```\w+ title="{title}"\n(.*?)```', page, re.DOTALL)
    assert found is not None
    return found[1].replace("web.visits", table)


class Place:
    """A directory with a daemon that indexes one table, whose first partition is there."""

    def __init__(self, directory: Path, daemon: RunningDaemon, sql: Session, table: str) -> None:
        self.directory = directory
        self.daemon = daemon
        self.sql = sql
        self.table = table

    def add_partition(self, day: str) -> None:
        self.sql.run(f"alter table {self.table} add partition (dt='{day}')")

    @property
    def environment(self) -> dict[str, str]:
        address = running_daemon(self.daemon.state_dir)
        assert address is not None
        assert address.token is not None
        (self.directory / "token").write_text(address.token)
        program = self.directory / "bin" / "tideline"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
        program.chmod(0o755)
        return os.environ | {
            "PATH": f"{program.parent}:{PROGRAMS}:{os.environ['PATH']}",
            "TIDELINE_URL": address.url,
            "TIDELINE_TOKEN": address.token,
            "DAGSTER_HOME": str(self.directory),
            "DAGSTER_DISABLE_TELEMETRY": "1",
        }


@pytest.fixture
def place(
    stack: Endpoints, source_sql: Session, topic: str, database: str, tmp_path: Path
) -> Iterator[Place]:
    table = f"{database}.visits"
    create_source(source_sql, database)
    source_sql.run(f"create table {table} (id int) partitioned by (dt string)")
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    values = yaml.safe_load(daemon.config.read_text())
    del values["policies"], values["targets"]
    values["catalog"] = {"lake": {"partitions": {"tables": [f"{database}.*"]}}}
    daemon.config.write_text(yaml.safe_dump(values))
    found = Place(tmp_path, daemon, source_sql, table)
    found.add_partition("2024-01-01")
    with daemon:
        daemon.status_when(lambda status: status.projections[0].state == "following")
        first = ("wait", "--table", table, "--partition", "dt=2024-01-01", "--timeout", "20")
        eventually(lambda: daemon.command(*first).returncode == 0, deadline_s=240)
        yield found


def test_dbt_runs_once_the_partition_is_there(place: Place) -> None:
    project = place.directory / "project"
    (project / "models").mkdir(parents=True)
    (project / "models" / "visits.sql").write_text("select 1 as id\n")
    (project / "dbt_project.yml").write_text(yaml.safe_dump(PROJECT))
    (project / "profiles.yml").write_text(yaml.safe_dump(PROFILE))
    environment = place.environment
    address, line = from_guide("client", place.table).splitlines()
    assert address.startswith("export TIDELINE_URL=")
    running = subprocess.Popen(
        ["bash", "-c", line],
        env=environment | {"TIDELINE_TOKEN_FILE": str(place.directory / "token")},
        cwd=project,
        stdout=subprocess.PIPE,
        text=True,
    )
    eventually(lambda: has_waits(place.daemon.state_dir) or running.poll() is not None)
    assert running.poll() is None
    assert not (project / "target").exists(), "dbt has not begun"
    place.add_partition("2024-01-02")
    said, _ = running.communicate(timeout=240)
    assert running.returncode == 0, said
    assert "Completed successfully" in said


def test_a_sensor_of_dagster_requests_a_run_for_each_day_that_is_there(place: Place) -> None:
    (place.directory / "visits.py").write_text(from_guide("visits.py", place.table))
    (place.directory / "evaluate.py").write_text(EVALUATE)
    (place.directory / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    environment = {name: each for name, each in place.environment.items() if name != "PYTHONPATH"}

    def evaluated(cursor: str) -> str:
        done = subprocess.run(
            [f"{PROGRAMS}/python", "evaluate.py", cursor],
            env=environment,
            cwd=place.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    assert evaluated("") == "2024-01-02 ['2024-01-01']"
    assert evaluated("2024-01-02") == "None ['2024-01-01']", "the next day is not there, and the cursor stays"
    place.add_partition("2024-01-02")
    eventually(lambda: evaluated("2024-01-02") == "2024-01-03 ['2024-01-01', '2024-01-02']", pause_s=1.0)
