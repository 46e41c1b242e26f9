"""The process without sources: it starts, answers, refuses a second instance, and stops on request."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from daemon.status.client import load_status
from state.errors import TidelineError
from tests.builders.daemon.assembly import SECTIONS
from tests.builders.daemon.loops import DEADLINE_S, eventually
from tests.builders.daemon.tideline_process import running


Start = Callable[[], subprocess.Popen[str]]


@pytest.fixture
def drain_s() -> int:
    """How long loops have to end after a stop was requested."""
    return 3


@pytest.fixture
def config(tmp_path: Path, drain_s: int) -> Path:
    path = tmp_path / "tideline.yaml"
    path.write_text(
        f"state: {{dir: {tmp_path}/state}}\nhttp: {{port: 0}}\nlogs: {{format: json}}\nsupervisor: "
        f"{{drain_s: {drain_s}}}\n"
    )
    return path


IDLE = """
import sys
import daemon.service.lifecycle as lifecycle
from daemon.capability import Parts
from daemon.service.command_line import call
from daemon.process.loops.loop import Job
def idle(heartbeat):
    assert sys.getswitchinterval() < 0.001, "a thread that computes keeps others waiting"
    heartbeat.stopping.wait(600)
lifecycle.build_parts = lambda _: Parts(jobs=(Job("idles", idle),))
sys.exit(call(["run", "-c", sys.argv[1]]))
"""


@pytest.fixture
def start(config: Path) -> Iterator[Start]:
    """Starts daemons with a loop that needs no component."""
    with ExitStack() as started:
        yield lambda: started.enter_context(running([sys.executable, "-c", IDLE, str(config)]))


def answers(state_dir: Path) -> bool:
    try:
        return load_status(state_dir, SECTIONS).state == "running"
    except TidelineError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_daemon_runs_until_a_stop_is_requested_and_exits_with_0(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    process = start()
    eventually(lambda: answers(tmp_path / "state"))
    process.send_signal(number)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert [json.loads(line)["event"] for line in output.splitlines()] == ["running", "stopping", "stopped"]
    assert load_status(tmp_path / "state", SECTIONS).state == "stopped"


def test_a_second_daemon_on_the_same_state_is_refused_with_the_holders_pid(
    start: Start, tmp_path: Path
) -> None:
    process = start()
    eventually(lambda: answers(tmp_path / "state"))
    twin = start()
    output, _ = twin.communicate(timeout=DEADLINE_S)
    assert twin.returncode == 1
    assert output.startswith("Error [state-locked]: another process uses the state directory")
    assert f"pid={process.pid}" in output


HANGING = """
import sys, time
import daemon.service.lifecycle as lifecycle
from daemon.capability import Parts
from daemon.service.command_line import call
from daemon.process.loops.loop import Job
lifecycle.build_parts = lambda _: Parts(jobs=(Job("hangs", lambda _: time.sleep(600)),))
sys.exit(call(["run", "-c", sys.argv[1]]))
"""


@pytest.fixture
def hanging(config: Path) -> Iterator[subprocess.Popen[str]]:
    """A daemon with a loop that ignores stop requests."""
    with running([sys.executable, "-c", HANGING, str(config)]) as process:
        yield process


def test_after_the_deadline_the_process_exits_without_loops_that_do_not_end(
    hanging: subprocess.Popen[str], tmp_path: Path
) -> None:
    eventually(lambda: answers(tmp_path / "state"))
    hanging.send_signal(signal.SIGTERM)
    output, _ = hanging.communicate(timeout=DEADLINE_S)
    assert hanging.returncode == 1
    assert json.loads(output.splitlines()[-1])["loops"] == ["hangs"]


@pytest.mark.parametrize("drain_s", [600])
def test_a_second_signal_ends_the_process_immediately(hanging: subprocess.Popen[str], tmp_path: Path) -> None:
    eventually(lambda: answers(tmp_path / "state"))
    hanging.send_signal(signal.SIGTERM)
    eventually(lambda: load_status(tmp_path / "state", SECTIONS).state == "stopping")
    hanging.send_signal(signal.SIGTERM)
    hanging.communicate(timeout=DEADLINE_S)
    assert hanging.returncode == 1
