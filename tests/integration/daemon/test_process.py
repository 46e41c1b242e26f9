"""``tideline`` as an operator meets it, on the real components."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from daemon.asking import last_known
from handlers.metastore import Metastore
from handlers.structs import Database
from state.errors import TidelineError
from tests.builders.daemons import DEADLINE_S


if TYPE_CHECKING:
    from daemon.status import DaemonStatus
    from dev.stack.endpoints import Endpoints
    from dev.stack.sql import Session


COMMAND = [sys.executable, "-c", "from daemon.cli import main; main()"]
Tideline = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def config(stack: Endpoints, topic: str, database: str, tmp_path: Path) -> Path:
    """A file that follows ``database`` of the source as ``DATABASE_r``."""
    path = tmp_path / "tideline.yaml"
    roots = [f"file:{stack.source.warehouse}", f"file:{stack.source.external}", f"file:{stack.source.cmroot}"]
    source = {"metastore": [stack.source.metastore], "topic": topic, "read_roots": roots}
    policy = {"source": "lake", "target": "dr", "database": database, "target_database": f"{database}_r"}
    values = {
        "sources": {"lake": source},
        "targets": {"dr": {"metastore": [stack.target.metastore]}},
        "policies": {"shop": policy},
        "kafka": {"bootstrap": stack.kafka, "dead_letter_topic": f"{topic}.dead"},
        "state": {"dir": str(tmp_path / "state")},
        "http": {"port": 0},
        "logs": {"format": "json"},
        "supervisor": {"backoff_min_s": 0.05, "backoff_max_s": 0.5},
    }
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.fixture
def tideline(config: Path) -> Tideline:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments, "-c", str(config)], capture_output=True, text=True, timeout=60, check=False
        )

    return run


@pytest.fixture
def daemon(config: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def run(command: str = "run") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, command, "-c", str(config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    """Closes what a test enters into it."""
    with ExitStack() as opened:
        yield opened


def status_when(
    state_dir: Path, condition: Callable[[DaemonStatus], bool], deadline_s: float = DEADLINE_S
) -> DaemonStatus:
    """Return the first status of the running daemon for which ``condition`` holds."""
    end = time.monotonic() + deadline_s
    last: object = None
    while time.monotonic() < end:
        try:
            last = status = last_known(state_dir)
            if status.state == "running" and condition(status):
                return status
        except TidelineError as error:
            last = error
        time.sleep(0.05)
    pytest.fail(f"did not come true in {deadline_s} s; last: {last}")


def test_the_live_check_finds_nothing_wrong_with_the_stack(
    tideline: Tideline, source_sql: Session, database: str
) -> None:
    source_sql.run(f"create database {database}")  # an empty notification log is a finding
    done = tideline("config", "check", "--live", "--json")
    assert json.loads(done.stdout)["problems"] == []
    assert done.returncode == 0


def test_a_policy_that_was_never_bootstrapped_fails_alone_and_says_what_to_do(
    daemon: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = daemon()
    status = status_when(
        tmp_path / "state",
        lambda s: s.projections[0].state == "failed" and s.sources[0].relay_state == "following",
    )
    assert status.projections[0].code == "config"
    assert "tideline bootstrap shop" in (status.projections[0].problem or "")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0


def test_a_bootstrapped_policy_is_followed_in_little_memory_and_ends_with_0(
    stack: Endpoints,
    database: str,
    clients: ExitStack,
    tideline: Tideline,
    daemon: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    source = clients.enter_context(closing(Metastore([stack.source.metastore])))
    target = clients.enter_context(closing(Metastore([stack.target.metastore])))
    source.create_database(
        Database(name=database, locationUri=f"file:{stack.source.warehouse}/{database}.db")
    )
    assert tideline("bootstrap", "shop").returncode == 0
    assert "had been bootstrapped before" in tideline("bootstrap", "shop").stdout
    process = daemon()
    before = status_when(tmp_path / "state", lambda s: s.projections[0].state == "following")
    changed = source.get_database(database)
    changed.parameters = {**(changed.parameters or {}), "owner.team": "tide"}
    source.alter_database(database, changed)
    newest = source.current_event_id()
    after = status_when(tmp_path / "state", lambda s: (s.projections[0].event_id or 0) >= newest)
    assert (target.get_database(f"{database}_r").parameters or {}).get("owner.team") == "tide"
    assert (after.projections[0].event_id or 0) > (before.projections[0].event_id or 0)
    assert after.projections[0].target == f"dr/{database}_r"
    assert resident_bytes(process.pid) < 150 * 1024 * 1024
    assert "replication:shop" in tideline("status").stdout
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    lines = [json.loads(line) for line in output.splitlines()]
    assert {line["level"] for line in lines} == {"info"}, output
    assert len(lines) <= 5, "it is quiet when all is well"


def test_relay_alone_publishes_and_follows_no_policy(
    source_sql: Session,
    database: str,
    daemon: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    process = daemon("relay")
    first = status_when(tmp_path / "state", lambda s: s.sources[0].relay_state == "following")
    assert first.projections == ()
    source_sql.run(f"CREATE DATABASE {database}")
    status_when(tmp_path / "state", lambda s: s.sources[0].records >= 1 and s.sources[0].lag_events == 0)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0


def resident_bytes(pid: int) -> int:
    """Return the process' resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")
