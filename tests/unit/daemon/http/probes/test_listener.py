"""The listener for probes: a real process and real sockets, beside a daemon that is busy, hangs, or ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any

import pytest

from daemon.config.settings.process import HttpConfig
from daemon.http.endpoints import Made, probe_answer
from daemon.http.probes import listener as listener_module
from daemon.http.probes.listener import ProbeAnswers, ProbesListener
from daemon.process.descriptors import raise_limit
from daemon.process.logs import LogSettings
from state.errors import ConfigError
from tests.builders.daemon.http_client import Answer, asked
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.raw_clients import connected


class Daemon:
    """What the daemon would answer; tests change it."""

    def __init__(self) -> None:
        self.deadlines: dict[str, float] = {"loop": inf}
        self.unready: list[str] = []
        self.refused: Counter[str] = Counter()
        self.before_answer: Callable[[], object] = lambda: None

    def answers(self) -> ProbeAnswers:
        return ProbeAnswers(lambda: self.deadlines, self._ready, self._metrics)

    def count(self, reason: str, number: int) -> None:
        self.refused[reason] += number

    def _ready(self) -> Made:
        self.before_answer()
        return probe_answer(self.unready)

    def _metrics(self, accept: str) -> Made:
        self.before_answer()
        return Made(f"accepted {accept}".encode(), "text/plain; charset=utf-8")


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@contextmanager
def listening(daemon: Daemon, **settings: Any) -> Iterator[ProbesListener]:
    config = HttpConfig.model_validate({"port": 0, **settings})
    made = ProbesListener(config, LogSettings("info", "json"), daemon.answers(), daemon.count)
    with closing(made):
        made.start()
        yield made


def ask(probes: ProbesListener, path: str, **headers: str) -> Answer:
    return asked(probes.port, path, headers=headers)


def pid_of(probes: ProbesListener) -> int:
    assert probes._process is not None
    return probes._process.pid


def test_the_daemon_is_asked_for_readiness_and_metrics(daemon: Daemon) -> None:
    with listening(daemon) as probes:
        assert ask(probes, "/livez").status == 200
        assert ask(probes, "/readyz").status == 200
        daemon.unready = ["a lags"]
        answer = ask(probes, "/readyz")
        assert (answer.status, json.loads(answer.text)["reasons"]) == (503, ["a lags"])
        answer = ask(probes, "/metrics", Accept="text/plain")
        assert (answer.status, answer.text) == (200, "accepted text/plain")
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.headers["cache-control"] == "no-store"
        assert ask(probes, "/api/v1/status").status == 404


def test_a_daemon_that_has_no_time_to_answer_is_alive(daemon: Daemon) -> None:
    free = threading.Event()
    daemon.before_answer = free.wait
    with listening(daemon) as probes:
        waiting = threading.Thread(target=ask, args=(probes, "/metrics"))
        waiting.start()
        assert [ask(probes, "/livez").status for _ in range(20)] == [200] * 20
        free.set()
        waiting.join()


def test_a_loop_without_heartbeat_fails_the_probe(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "REPORT_S", 0.05)
    with listening(daemon) as probes:
        assert ask(probes, "/livez").status == 200
        daemon.deadlines = {"loop": -inf}
        eventually(lambda: ask(probes, "/livez").status == 503)
        assert json.loads(ask(probes, "/livez").text)["reasons"] == ["loop has no heartbeat"]
        daemon.deadlines = {"loop": inf}
        eventually(lambda: ask(probes, "/livez").status == 200)


def test_silent_clients_keep_no_probe_out_and_are_counted(daemon: Daemon) -> None:
    with listening(daemon) as probes, connected(probes.port, 300):
        assert [ask(probes, "/livez").status for _ in range(20)] == [200] * 20
        ask(probes, "/readyz")
        assert daemon.refused["address"] > 200


def test_a_failed_answer_is_a_failed_probe_and_the_next_one_succeeds(daemon: Daemon) -> None:
    def fail() -> None:
        raise RuntimeError("of the test")

    with listening(daemon) as probes:
        daemon.before_answer = fail
        answer = ask(probes, "/readyz")
        assert (answer.status, json.loads(answer.text)["reasons"]) == (
            503,
            ["the daemon could not answer: RuntimeError"],
        )
        daemon.before_answer = lambda: None
        assert ask(probes, "/readyz").status == 200


def test_a_process_that_was_killed_is_replaced_at_the_same_port(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "RESTART_S", 0.01)
    with listening(daemon) as probes:
        assert ask(probes, "/livez").status == 200
        first = pid_of(probes)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: pid_of(probes) != first)
        assert ask(probes, "/livez").status == 200
        assert ask(probes, "/readyz").status == 200


def test_signals_to_the_whole_service_leave_it_to_the_daemon_to_end(daemon: Daemon) -> None:
    with listening(daemon) as probes:
        assert ask(probes, "/livez").status == 200
        os.kill(pid_of(probes), signal.SIGTERM)
        os.kill(pid_of(probes), signal.SIGINT)
        assert ask(probes, "/readyz").status == 200
        pid = pid_of(probes)
    assert not Path(f"/proc/{pid}").exists()


def test_a_daemon_with_thousands_of_open_files_answers(daemon: Daemon) -> None:
    raise_limit()
    with ExitStack() as files:
        for _ in range(1_100):
            files.enter_context(Path(os.devnull).open("rb"))
        with listening(daemon) as probes:
            assert [ask(probes, path).status for path in ("/livez", "/readyz")] == [200, 200]


def test_a_port_in_use_is_a_configuration_error(daemon: Daemon) -> None:
    with listening(daemon) as probes:
        with pytest.raises(ConfigError) as caught, listening(daemon, probes_port=probes.port):
            pass
        assert caught.value.context["key"] == "http.probes_port"
        assert "http.probes_port" in caught.value.hint, "and not the port of the site"


PARENT = """
import time
from daemon.config.settings.process import HttpConfig
from daemon.http.endpoints import probe_answer
from daemon.http.probes import listener
from daemon.http.probes.listener import ProbeAnswers, ProbesListener
from daemon.process.logs import LogSettings

listener.REPORT_S, listener.SILENT_MAX_S = 0.1, 1

def ready():
    return probe_answer([str(probes._process.pid)])

answers = ProbeAnswers(dict, ready, lambda accept: ready())
probes = ProbesListener(HttpConfig(port=0), LogSettings(), answers, lambda *_: None)
probes.start()
print(probes.port, flush=True)
time.sleep(600)
"""


@contextmanager
def parent() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a process with a listener; yield it and the port."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_the_process_ends_with_the_daemon_however_that_ends() -> None:
    with parent() as (process, port):
        child = int(json.loads(asked(port, "/readyz").text)["reasons"][0])
        process.kill()
        process.wait()
        eventually(lambda: not is_running(child))
        with pytest.raises(ConnectionError):
            asked(port, "/livez")


def test_a_daemon_that_hangs_as_a_whole_fails_the_probe() -> None:
    with parent() as (process, port):
        assert asked(port, "/livez").status == 200
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: asked(port, "/livez").status == 503)
        process.send_signal(signal.SIGCONT)
        eventually(lambda: asked(port, "/livez").status == 200)


def is_running(pid: int) -> bool:
    with suppress(FileNotFoundError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False
