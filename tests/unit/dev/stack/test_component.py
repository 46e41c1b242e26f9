from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints, Endpoints, read_endpoints
from dev.stack.errors import ComponentFailed, StackError
from dev.stack.process.component import Component, _is_running, running_pid, stop_by_pid_file
from dev.stack.process.owner_watch import stop_all
from tests.builders.daemon.loops import eventually


class Script(Component):
    """A Python script that says it serves by making a file named ready."""

    start_timeout_s = 20.0
    stop_timeout_s = 0.5

    def __init__(self, directory: Path, body: str) -> None:
        super().__init__("script", directory)
        self.body = body

    def prepare(self) -> None:
        (self.directory / "ready").unlink(missing_ok=True)
        (self.directory / "script.py").write_text(self.body)

    def command(self) -> list[str]:
        return [sys.executable, str(self.directory / "script.py")]

    def check_ready(self) -> None:
        (self.directory / "ready").stat()


SERVES = "import pathlib, time\npathlib.Path('ready').touch()\ntime.sleep(60)\n"
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVES


def test_a_component_runs_from_start_to_stop(tmp_path: Path) -> None:
    script = Script(tmp_path / "a", SERVES)
    script.start()
    pid = script.pid
    assert pid == running_pid(script.pid_file)
    assert script.rss_bytes() > 1 << 20
    script.stop()
    assert (script.pid, running_pid(script.pid_file), script.rss_bytes()) == (None, None, 0)
    assert pid is not None
    assert not Path(f"/proc/{pid}").exists()


def test_a_component_that_ignores_the_signal_is_killed_after_the_time_limit(tmp_path: Path) -> None:
    script = Script(tmp_path, STUBBORN)
    script.start()
    script.stop()
    assert script.pid is None


def test_a_component_that_dies_early_raises_with_the_end_of_its_log(tmp_path: Path) -> None:
    script = Script(tmp_path, "raise SystemExit('no license today')")
    with pytest.raises(ComponentFailed, match=r"script died while starting.*\n.*no license today"):
        script.start()


def test_a_component_that_is_never_ready_raises_after_the_time_limit(tmp_path: Path) -> None:
    script = Script(tmp_path, "import time\ntime.sleep(60)")
    script.start_timeout_s = 0.2
    with pytest.raises(ComponentFailed, match="was not ready"):
        script.start()
    script.kill()


def test_stopping_a_component_that_does_not_run_does_nothing(tmp_path: Path) -> None:
    Script(tmp_path, SERVES).stop()


def test_a_component_that_ended_is_not_signalled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(tmp_path, "raise SystemExit(1)")
    with pytest.raises(ComponentFailed):
        script.start()
    monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("the process id may have been reused"))
    script.stop()


def test_a_restart_keeps_the_directory_and_gives_a_new_process(tmp_path: Path) -> None:
    script = Script(tmp_path, SERVES)
    script.start()
    (tmp_path / "data").write_text("kept")
    before = script.pid
    script.restart()
    assert script.pid not in {None, before}
    assert (tmp_path / "data").read_text() == "kept"
    script.kill()


def test_another_process_stops_it_by_its_pid_file(tmp_path: Path) -> None:
    script = Script(tmp_path / "a", SERVES)
    script.start()
    assert stop_all(tmp_path) == 1
    assert script.pid is None
    assert stop_all(tmp_path) == 0


def test_a_process_that_is_slow_to_end_is_waited_for_after_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its process object is forgotten while it runs, which fails the test that runs when it is
    collected."""
    script, signals, polls = Script(tmp_path, STUBBORN), list[int](), iter(range(1_000_000))
    script.start()
    script.stop_timeout_s = 0.0
    process = script._process
    assert process is not None
    kill, poll = os.killpg, process.poll

    def kill_group(pid: int, sign: int) -> None:
        signals.append(sign)
        kill(pid, sign)

    monkeypatch.setattr(os, "killpg", kill_group)
    monkeypatch.setattr(process, "poll", lambda: poll() if next(polls) > 20 else None)
    script.stop()
    assert signals == [signal.SIGTERM, signal.SIGKILL]
    assert process.returncode is not None


def test_a_process_counts_as_ended_once_its_parent_can_wait_for_it() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        assert _is_running(child.pid)
        child.kill()
        eventually(lambda: not _is_running(child.pid))
        assert child.poll() is not None, "at once"
    assert not _is_running(child.pid)


def test_another_process_that_reuses_the_pid_is_not_stopped(tmp_path: Path) -> None:
    pid_file = tmp_path / "old.pid"
    with subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
    ) as stranger:
        pid_file.write_text(f"{stranger.pid}\n")
        assert not stop_by_pid_file(pid_file)
        assert stranger.poll() is None
        os.killpg(stranger.pid, signal.SIGKILL)
    assert not pid_file.exists()


def test_endpoints_are_read_as_they_were_written(tmp_path: Path) -> None:
    cluster = ClusterEndpoints("thrift://127.0.0.1:1", "127.0.0.1:2", "/w", "/e", "/c")
    endpoints = Endpoints(str(tmp_path), "127.0.0.1:3", cluster, cluster)
    assert read_endpoints(endpoints.write(tmp_path)) == endpoints


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kafka": 1, "source": {}, "target": {}}'])
def test_a_file_that_does_not_describe_a_stack_is_refused_with_a_hint(tmp_path: Path, text: str) -> None:
    file = tmp_path / "endpoints.json"
    file.write_text(text)
    with pytest.raises(StackError, match=r"dev\.stack up"):
        read_endpoints(file)
