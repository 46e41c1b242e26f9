"""One daemon runs per state directory. The first signal requests a stop, and the second ends the process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from daemon.process.signals import stop_signals
from daemon.state_directory.directory import state_lock
from state.errors import ConfigError, StateLocked


def test_a_start_waits_while_a_command_holds_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ExitStack()
    command.enter_context(state_lock(tmp_path))
    monkeypatch.setattr("daemon.state_directory.directory.time.sleep", lambda _: command.close())
    with state_lock(tmp_path, wait_s=60.0), pytest.raises(StateLocked), state_lock(tmp_path):
        pass


def test_a_second_instance_on_the_same_state_is_refused_with_the_holder(tmp_path: Path) -> None:
    with state_lock(tmp_path), pytest.raises(StateLocked) as caught, state_lock(tmp_path):
        pass
    assert caught.value.context["pid"] == os.getpid()
    assert caught.value.context["host"] == socket.gethostname()


def test_the_lock_is_free_again_after_a_killed_holder(tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from daemon.state_directory.directory import state_lock
with state_lock(Path({str(tmp_path)!r})):
    print("held", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    held = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert held.stdout == "held\n"
    with state_lock(tmp_path):
        pass


def test_a_directory_is_created_for_its_owner_only(tmp_path: Path) -> None:
    with state_lock(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").stat().st_mode & 0o077 == 0


def test_a_path_that_is_not_a_directory_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as caught, state_lock(tmp_path / "file"):
        pass
    assert caught.value.context["key"] == "state.dir"


def test_a_lock_file_with_foreign_content_only_hides_the_holder(tmp_path: Path) -> None:
    with state_lock(tmp_path):
        (tmp_path / "lock").write_bytes(b"\xff not json")
        with pytest.raises(StateLocked) as caught, state_lock(tmp_path):
            pass
    assert caught.value.context["pid"] is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_requests_a_stop_and_the_second_ends_immediately(number: signal.Signals) -> None:
    ended: list[int] = []
    before = signal.getsignal(number)
    with stop_signals(at_once=ended.append) as asked:
        assert not asked.is_set()
        signal.raise_signal(number)
        assert asked.is_set()
        assert ended == []
        signal.raise_signal(number)
        assert ended == [1]
    assert signal.getsignal(number) is before
