"""The miner as the daemon's child: what it tells, how it ends, and that it records what people ask."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from daemon.keys.loop import MinerLoop
from daemon.keys.metrics import MiningMetrics
from daemon.keys.status import MinedSource, MiningStatus
from daemon.process.loops.loop import Job, LoopState
from daemon.process.loops.supervisor import Supervisor
from daemon.status.client import load_status
from daemon.status.model import DaemonStatus
from daemon.status.report.text import status_text
from state.errors import TidelineError
from streaming.keylog.log import KeyLog
from streaming.keylog.log_reader import read_requested_keys
from tests.builders.daemon.assembly import SECTIONS
from tests.builders.daemon.loops import DEADLINE_S, eventually, supervise
from tests.builders.flat.fake_drivers import literal, program


WAITS = "\ntime.sleep(600)"
STARTED = "tell({'event': 'started'})\n"


def mined(**changes: Any) -> str:
    """Return the tell of a pass over one source."""
    told: dict[str, Any] = {
        "source": "reports",
        "queries": 10,
        "queries_with_keys": 4,
        "requests": 7,
        "parsers": {"sqlglot": 10},
        "unresolved": {"star": 2},
        "dead": {"too-large": 1},
        "took_s": 0.5,
        "error": None,
    }
    return f"tell({literal({'event': 'mined', 'sources': [told | changes]})})\n"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def follow(
    registry: CollectorRegistry, tmp_path: Path
) -> Iterator[Callable[..., tuple[MinerLoop, Supervisor]]]:
    started: list[Supervisor] = []

    def start(body: str, attempts_max: int = 3) -> tuple[MinerLoop, Supervisor]:
        loop = MinerLoop(
            program(tmp_path, body),
            MiningMetrics(registry),
            ["reports"],
            lambda text: text.replace("hunter2", "***"),
        )
        supervisor, _ = supervise(Job("mining", loop.run), attempts_max=attempts_max)
        started.append(supervisor)
        supervisor.start()
        return loop, supervisor

    yield start
    for supervisor in started:
        assert supervisor.stop(20) == []


def standing(loop: MinerLoop, supervisor: Supervisor) -> MiningStatus:
    return loop.status(supervisor.statuses()["mining"])


def test_what_passes_come_to_is_counted_and_shown(
    follow: Callable[..., Any], registry: CollectorRegistry
) -> None:
    loop, supervisor = follow(STARTED + mined() + mined(queries=5, dead={}) + WAITS)
    eventually(lambda: standing(loop, supervisor).sources[0].queries == 15)
    (source,) = standing(loop, supervisor).sources
    assert (source.queries_with_keys, source.requests, source.unresolved, source.dead) == (8, 14, 4, 1)
    assert source.read_s is not None
    assert time.time() - source.read_s < DEADLINE_S
    assert standing(loop, supervisor).state == LoopState.FOLLOWING.value
    labels = {"source": "reports"}
    assert registry.get_sample_value("tideline_mining_queries_total", labels) == 15
    assert registry.get_sample_value("tideline_mining_failures_total", labels) == 0
    assert registry.get_sample_value("tideline_mining_unresolved_total", {**labels, "reason": "star"}) == 4
    assert (
        registry.get_sample_value("tideline_mining_dead_records_total", {**labels, "reason": "too-large"})
        == 1
    )
    assert registry.get_sample_value("tideline_mining_read_timestamp_seconds", labels) == source.read_s


def test_a_source_that_fails_is_told_of_until_it_is_read_again_without_secrets(
    follow: Callable[..., Any], registry: CollectorRegistry, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    loop, supervisor = follow(
        STARTED
        + mined(error="[refused] no entry for hunter2")
        + f"while not os.path.exists({str(again)!r}): time.sleep(0.01)\n"
        + mined()
        + WAITS
    )
    eventually(lambda: standing(loop, supervisor).sources[0].problem)
    (source,) = standing(loop, supervisor).sources
    assert source.problem == "[refused] no entry for ***"
    assert source.read_s is None
    assert registry.get_sample_value("tideline_mining_failures_total", {"source": "reports"}) == 1
    again.touch()
    eventually(lambda: standing(loop, supervisor).sources[0].problem is None)
    assert standing(loop, supervisor).restarts == 0


def test_events_that_cannot_be_read_and_sources_nobody_knows_are_left_out(follow: Callable[..., Any]) -> None:
    loop, supervisor = follow(
        STARTED
        + mined(queries="many")
        + "tell({'event': 'mined', 'sources': 7})\n"
        + mined(source="of another configuration")
        + mined()
        + WAITS
    )
    eventually(lambda: standing(loop, supervisor).sources[0].queries)
    assert [(each.name, each.queries) for each in standing(loop, supervisor).sources] == [("reports", 10)]


def test_a_miner_that_is_killed_is_started_again_and_its_counts_go_on(follow: Callable[..., Any]) -> None:
    loop, supervisor = follow(STARTED + mined() + WAITS)
    eventually(lambda: standing(loop, supervisor).sources[0].queries == 10)
    pid = standing(loop, supervisor).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: standing(loop, supervisor).sources[0].queries == 20)
    assert standing(loop, supervisor).restarts == 1
    assert standing(loop, supervisor).pid not in {None, pid}


def test_a_wrong_setting_stops_the_loop_with_the_miners_own_error(follow: Callable[..., Any]) -> None:
    loop, supervisor = follow(
        "tell({'event': 'stopped', 'reason': 'config', 'message': '[config] mining knows no raw table'})"
    )
    eventually(lambda: standing(loop, supervisor).state == LoopState.FAILED.value)
    assert standing(loop, supervisor).code == "config"
    assert "mining knows no raw table" in (standing(loop, supervisor).problem or "")


def test_a_miner_that_ends_without_a_word_is_told_with_its_last_lines(follow: Callable[..., Any]) -> None:
    loop, supervisor = follow("print('out of hunter2', flush=True)\nsys.exit(3)")
    eventually(lambda: standing(loop, supervisor).code == "miner-ended")
    problem = standing(loop, supervisor).problem or ""
    assert "exit_code=3" in problem
    assert "out of ***" in problem


def test_the_status_shows_the_sources_and_reads_back() -> None:
    mining = MiningStatus(
        "following", 7, (MinedSource("reports", 1_000, 40, 90, 3, 2, 70.0, "no such directory"),)
    )
    others: dict[str, Any] = {section.key: section.empty for section in SECTIONS}
    status = DaemonStatus("1", "here", 1, 0.0, 100.0, sections={**others, "mining": mining})
    text = status_text(status, SECTIONS)
    assert "30 s ago" in text
    assert "mining of reports: no such directory" in text
    assert DaemonStatus.from_json(json.loads(json.dumps(status.to_json())), SECTIONS) == status


@pytest.fixture
def mining_daemon(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A daemon that does nothing but mine a directory of SQL files."""
    (tmp_path / "sql").mkdir()
    config = tmp_path / "tideline.yaml"
    config.write_text(
        f"state: {{dir: {tmp_path}/state}}\n"
        "http: {port: 0}\n"
        "logs: {format: json}\n"
        "supervisor: {backoff_min_s: 0.05, backoff_max_s: 0.1}\n"
        "mining:\n"
        "  every_s: 1\n"
        "  raw_tables: {web.raw: {json_column: json}}\n"
        f"  sources: {{reports: {{kind: sql-files, path: {tmp_path}/sql, user: ann}}}}\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "daemon", "run", "-c", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def keys_asked(state_dir: Path) -> list[str]:
    with closing(KeyLog.open(f"sqlite:///{state_dir}/keylog.db")) as log:
        return [each.key.text for each in read_requested_keys(log, "web.raw", 30)]


def miner_pid(state_dir: Path) -> int | None:
    """The miner's process, of those whose parent the daemon is."""
    with suppress(TidelineError):
        daemon = load_status(state_dir, SECTIONS).pid
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                state, parent = stat.read_text().rpartition(")")[2].split()[:2]
                if int(parent) == daemon and state != "Z":
                    return int(stat.parent.name)
    return None


def test_the_daemon_mines_goes_on_after_a_kill_and_takes_the_miner_with_it(
    mining_daemon: subprocess.Popen[str], tmp_path: Path
) -> None:
    state = tmp_path / "state"
    (tmp_path / "sql" / "a.sql").write_text("SELECT get_json_object(json, '$.a') FROM web.raw;")
    eventually(lambda: (state / "keylog.db").exists() and keys_asked(state) == ["$.a"])
    pid = miner_pid(state)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    (tmp_path / "sql" / "b.sql").write_text("SELECT get_json_object(json, '$.b.c') FROM web.raw;")
    eventually(lambda: keys_asked(state) == ["$.a", "$.b.c"])
    last = miner_pid(state)
    mining_daemon.send_signal(signal.SIGTERM)
    mining_daemon.communicate(timeout=DEADLINE_S)
    assert mining_daemon.returncode == 0
    assert last is not None
    assert not Path(f"/proc/{last}").exists()
