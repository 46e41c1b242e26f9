"""``tideline`` as an operator uses it, on real components."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.daemon.running_daemon import status_when
from tests.builders.daemon.tideline_process import daemon, ended, kafka_settings, tideline, write_config


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def config(stack: Endpoints, topic: str, database: str, tmp_path: Path) -> Path:
    """A configuration that replicates ``database`` of the source as ``DATABASE_r``."""
    roots = [f"file:{stack.source.warehouse}", f"file:{stack.source.external}", f"file:{stack.source.cmroot}"]
    source = {"metastore": [stack.source.metastore], "topic": topic, "read_roots": roots}
    policy = {"source": "lake", "target": "dr", "database": database, "target_database": f"{database}_r"}
    values = {
        "sources": {"lake": source},
        "targets": {"dr": {"metastore": [stack.target.metastore]}},
        "policies": {"shop": policy},
        "kafka": kafka_settings(stack.kafka, topic),
    }
    return write_config(tmp_path, values)


@pytest.fixture
def start(config: Path) -> Iterator[Start]:
    """Starts the daemon, or only its relay, once the source is prepared."""
    with ExitStack() as started:
        yield lambda command="run": started.enter_context(daemon(config, command))


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    """Closes the clients of a test."""
    with ExitStack() as opened:
        yield opened


def test_the_live_check_finds_only_that_anyone_can_write_to_the_stacks_topics(
    config: Path, source_sql: Session, database: str
) -> None:
    source_sql.run(f"create database {database}")  # an empty notification log is a problem
    done = tideline(config, "config", "check", "--live", "--json")
    (found,) = json.loads(done.stdout)["problems"]
    assert "no access rule applies to the topic" in found["reason"]
    assert done.returncode == 0


def test_a_policy_that_was_not_bootstrapped_waits_alone_with_an_instruction(
    start: Start, tmp_path: Path
) -> None:
    process = start()
    status = status_when(
        tmp_path / "state",
        lambda s: s.projections[0].state == "not-bootstrapped" and s.sources[0].relay_state == "following",
    )
    assert [(need.kind, need.command) for need in status.needs_operator] == [
        ("new-policy", "tideline bootstrap shop")
    ]
    ended(process)


def test_a_bootstrapped_policy_is_followed_in_little_memory_and_the_daemon_exits_with_0(
    stack: Endpoints,
    database: str,
    clients: ExitStack,
    config: Path,
    start: Start,
    tmp_path: Path,
) -> None:
    source = clients.enter_context(closing(Metastore([stack.source.metastore])))
    target = clients.enter_context(closing(Metastore([stack.target.metastore])))
    source.create_database(
        Database(name=database, locationUri=f"file:{stack.source.warehouse}/{database}.db")
    )
    assert tideline(config, "bootstrap", "shop").returncode == 0
    again = tideline(config, "bootstrap", "shop").stdout
    assert "is already bootstrapped" in again
    assert "Nothing was loaded. To start over, see" in again
    process = start()
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
    assert "replication:shop" in tideline(config, "status").stdout
    output = ended(process)
    lines = [json.loads(line) for line in output.splitlines()]
    # The new topic begins with the relay's start; events of other tests since the bootstrap are read from the
    # log.
    lines = [
        line for line in lines if not line["event"].startswith("events are missing in the topic; reading")
    ]
    assert {line["level"] for line in lines} == {"info"}, output
    assert len(lines) <= 5, "it is quiet when all is well"


def test_relay_alone_publishes_and_follows_no_policy(
    source_sql: Session,
    database: str,
    start: Start,
    tmp_path: Path,
) -> None:
    process = start("relay")
    first = status_when(tmp_path / "state", lambda s: s.sources[0].relay_state == "following")
    assert first.projections == ()
    source_sql.run(f"CREATE DATABASE {database}")
    status_when(tmp_path / "state", lambda s: s.sources[0].records >= 1 and s.sources[0].lag_events == 0)
    ended(process)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of the process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")
