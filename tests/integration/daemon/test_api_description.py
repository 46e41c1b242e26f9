"""The API of a daemon does what its OpenAPI document says.

Schemathesis derives requests from the document, valid and invalid ones, and checks every answer.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.status.address import running_daemon
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from tests.builders.components.availability import require_program
from tests.builders.daemon.http_client import Api, asked, told_port
from tests.builders.daemon.running_daemon import RunningDaemon, configured
from tests.builders.daemon.tideline_process import COMMAND
from tests.builders.replication.small_workload import create_source


HERE = Path(__file__).parent
PROGRAM = (sys.executable, "-m", "schemathesis.cli", f"--config-file={HERE / 'schemathesis.toml'}")
SETTINGS = (
    "--phases=examples,coverage,fuzzing",
    "--max-examples=5",
    "--seed=1",
    "--generation-deterministic",
    "--no-shrink",
    "--workers=1",  # ast.parse of Python 3.11 fails at times in two threads at once
    "--request-timeout=30",
    "--continue-on-failure",
    "--warnings=off",
    "--exclude-path=/api/v1/policies/{name}/promote",  # these end the policy that the others act on
    "--exclude-path=/api/v1/policies/{name}/retire",
)


@pytest.fixture
def daemon(
    stack: Endpoints, source_sql: Session, topic: str, database: str, tmp_path: Path
) -> Iterator[RunningDaemon]:
    """A daemon with a replica, timelines and a partition index."""
    create_source(source_sql, database)
    source_sql.run(f"create table {database}.visits (id int) partitioned by (dt string)")
    source_sql.run(f"alter table {database}.visits add partition (dt='2024-01-01')")
    tables = [f"{database}.*"]
    rules = {"all": {"tables": tables, "columns": ["dt"]}}
    sections = {"catalog": {"lake": {"rules": rules, "partitions": {"tables": tables}}}}
    policy = {"bootstrap": "auto"}
    with configured(
        tmp_path, stack, topic=topic, database=database, policy=policy, sections=sections
    ) as running:
        running.status_when(lambda status: all(each.state == "following" for each in status.projections))
        yield running


def test_every_answer_is_as_described(daemon: RunningDaemon, tmp_path: Path) -> None:
    address = running_daemon(daemon.state_dir)
    assert address is not None
    headers = [f"--header={name}: {value}" for name, value in address.headers().items()]
    done = subprocess.run(
        [*PROGRAM, "run", f"{address.url}/api/v1/openapi.json", *SETTINGS, *headers],
        env=os.environ | {"SCHEMATHESIS_HOOKS": str(HERE / "schemathesis_hooks.py")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_commands_work_from_a_machine_that_has_only_the_address_and_a_token(
    daemon: RunningDaemon, tmp_path: Path
) -> None:
    address = running_daemon(daemon.state_dir)
    assert address is not None
    assert address.token is not None
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "token").write_text(address.token)
    table = f"{daemon.database}.visits"
    for kind in ("timelines", "partitions"):
        Api(daemon.state_dir, kind).until(
            table, lambda answer: answer.get("state") == "following" or answer.get("timelines")
        )
    migrated = ("timeline", "migrate", table, "--column", "dt", "--period", "DAILY", "--to", "store-all")
    printed = {}
    for command in (
        ("timeline", "check", table),
        ("timeline", "rebuild", table),
        migrated,
        ("partitions", "check", table),
        ("partitions", "load", table),
        ("dlq", "list"),
        ("config", "show"),
        ("verify", "shop", "--repair"),
    ):
        done = subprocess.run(
            [*COMMAND, *command, "--url", address.url, "--token-file", "token"],
            cwd=elsewhere,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        printed[command[:2]] = done.stdout
    assert printed["timeline", "check"].startswith(f"{table}: matches the source")
    assert printed["timeline", "rebuild"] == f"{table} is loaded again: 1 timelines\n"
    assert "form store-all" in printed["timeline", "migrate"]
    assert printed["partitions", "check"].startswith(f"{table}: 1 partitions match the source")
    assert printed["partitions", "load"] == f"{table} is following, 1 partitions\n"
    assert f"database: {daemon.database}" in printed["config", "show"]
    assert re.fullmatch(r"policy shop: \d+ equal; \d+ tables not listed\n", printed["verify", "shop"])


def test_prometheus_has_nothing_to_say_about_the_names_and_types_of_metrics(daemon: RunningDaemon) -> None:
    require_program("promtool")
    metrics = asked(told_port(daemon.state_dir), "/metrics").text
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=metrics, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
