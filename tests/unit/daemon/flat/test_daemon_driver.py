"""Drivers of flat tables as children: what they tell, how they end, and what becomes of their loop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from daemon.flat.loop import DriverLoop
from daemon.flat.metrics import FlatMeasures, FlatMetrics
from daemon.process.child import EVENT_BYTES_MAX, Child, Lines
from daemon.process.loops.loop import Job, LoopState
from daemon.process.loops.supervisor import Supervisor
from daemon.process.redaction import Redactor
from state.errors import ConfigError
from tests.builders.daemon.loops import Scripted, eventually, supervise
from tests.builders.flat.fake_drivers import literal, program, progress


WAITS = "\ntime.sleep(600)"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def loop(registry: CollectorRegistry, tmp_path: Path) -> Callable[..., DriverLoop]:
    def make(body: str, stuck_s: float = 60.0, drain_s: float = 10.0) -> DriverLoop:
        measures = FlatMeasures(FlatMetrics(registry), "events")
        return DriverLoop(program(tmp_path, body), measures, stuck_s=stuck_s, drain_s=drain_s)

    return make


@pytest.fixture
def supervised() -> Iterator[Callable[..., Supervisor]]:
    started: list[Supervisor] = []

    def start(*loops: DriverLoop | Scripted, attempts_max: int = 3) -> Supervisor:
        jobs = [Job(f"flat:{n}", each.run) for n, each in enumerate(loops)]
        supervisor, _ = supervise(*jobs, attempts_max=attempts_max)
        started.append(supervisor)
        supervisor.start()
        return supervisor

    yield start
    for supervisor in started:
        assert supervisor.stop(20) == []


def _has_ended(pid: int) -> bool:
    return not is_alive(pid)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@given(st.lists(st.binary(max_size=30)), st.integers(0, 12))
def test_lines_are_cut_as_if_all_bytes_came_at_once(chunks: list[bytes], most: int) -> None:
    lines = Lines(most)
    found = [line for chunk in chunks for line in lines.feed(chunk)]
    *whole, rest = b"".join(chunks).split(b"\n")
    assert found == [line for line in whole if len(line) <= most]
    assert lines.refused == sum(len(line) > most for line in [*whole, rest])


def test_what_a_driver_tells_is_counted_and_shown(
    loop: Callable[..., DriverLoop], supervised: Callable[..., Supervisor], registry: CollectorRegistry
) -> None:
    events = [
        {"event": "started", "table": "web.flat", "application": "local-1"},
        progress(0),
        progress(0),
        progress(1, rows=50),
        {"event": "idle"},
        {"event": "idle", "lag": {"0": 9}},
    ]
    driver = loop("".join(f"tell({literal(each)})\n" for each in events) + WAITS)
    supervisor = supervised(driver)
    eventually(lambda: driver.progress.lag_records == 9)
    assert driver.progress.batch == 1
    assert driver.progress.counts.rows == 150, "a batch that is told twice counts once"
    assert supervisor.statuses()["flat:0"].state is LoopState.FOLLOWING
    assert registry.get_sample_value("tideline_flat_rows_total", {"flat": "events"}) == 150
    assert (
        registry.get_sample_value(
            "tideline_flat_dead_letters_total", {"flat": "events", "reason": "too-late"}
        )
        == 8
    )
    assert registry.get_sample_value("tideline_flat_lag_records", {"flat": "events", "partition": "0"}) == 9
    assert registry.get_sample_value("tideline_flat_columns", {"flat": "events", "state": "live"}) == 5


def test_lines_that_are_no_events_are_counted_and_left_out(
    loop: Callable[..., DriverLoop], supervised: Callable[..., Supervisor], registry: CollectorRegistry
) -> None:
    driver = loop(f"""
        os.write(fd, b"no json\\n[1]\\n{{}}\\n")
        line = b"x" * {EVENT_BYTES_MAX + 10} + b"\\n"
        while line: line = line[os.write(fd, line):]
        tell({{"event": "progress", "batchId": "many"}})
        tell({literal(progress(3))})
        time.sleep(600)
    """)
    supervised(driver)
    eventually(lambda: driver.progress.batch == 3)
    refused = "tideline_flat_driver_lines_refused_total"
    eventually(lambda: registry.get_sample_value(refused, {"flat": "events"}) == 5)


def test_a_driver_that_is_killed_is_started_again_and_another_loop_does_not_notice(
    loop: Callable[..., DriverLoop], supervised: Callable[..., Supervisor]
) -> None:
    driver, other = loop(f"tell({literal(progress())})" + WAITS), Scripted(None)
    supervisor = supervised(driver, other)
    eventually(lambda: driver.progress.batch == 0)
    first = driver.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    eventually(lambda: driver.pid not in {None, first} and supervisor.statuses()["flat:0"].restarts == 1)
    assert other.runs == 1


@pytest.mark.parametrize(
    ("event", "code", "state"),
    [
        ({"reason": "config", "message": "[config] no Java"}, "config", LoopState.FAILED),
        ({"reason": "topic-replaced", "message": "x"}, "topic-replaced", LoopState.FAILED),
        ({"reason": "metastore-unavailable", "message": "x"}, "metastore-unavailable", None),
        ({"reason": "state-locked", "message": "x"}, "driver-ended", None),
        ({"reason": "stop requested"}, "driver-ended", None),
        ({"reason": "a code of tomorrow"}, "refused", None),
    ],
)
def test_the_error_that_a_driver_tells_of_decides_what_becomes_of_its_loop(
    loop: Callable[..., DriverLoop],
    supervised: Callable[..., Supervisor],
    event: dict[str, str],
    code: str,
    state: LoopState | None,
) -> None:
    supervisor = supervised(
        loop(f"tell({literal({'event': 'stopped', **event})})\nsys.exit(1)"), attempts_max=100
    )
    eventually(lambda: supervisor.statuses()["flat:0"].failures >= (1 if state else 2))
    status = supervisor.statuses()["flat:0"]
    assert status.code == code
    if state is not None:
        eventually(lambda: supervisor.statuses()["flat:0"].state is state)


def test_a_driver_that_says_nothing_while_it_ends_has_its_last_words_told(
    loop: Callable[..., DriverLoop], supervised: Callable[..., Supervisor]
) -> None:
    supervisor = supervised(
        loop('print("OutOfMemoryError", file=sys.stderr)\nprint("\\tat a.b.C")\nsys.exit(3)')
    )
    eventually(lambda: supervisor.statuses()["flat:0"].problem)
    problem = supervisor.statuses()["flat:0"].problem or ""
    assert "exit_code=3" in problem
    assert "OutOfMemoryError" in problem
    assert "a.b.C" not in problem


def test_what_a_driver_said_is_shown_without_secrets(registry: CollectorRegistry, tmp_path: Path) -> None:
    command = program(tmp_path, 'print("login of hunter2 failed")\nsys.exit(1)')
    measures = FlatMeasures(FlatMetrics(registry), "events")
    clean = Redactor(["hunter2"]).text
    driver = DriverLoop(command, measures, stuck_s=60, drain_s=10, clean=clean)
    supervisor, _ = supervise(Job("flat:0", driver.run))
    supervisor.start()
    eventually(lambda: supervisor.statuses()["flat:0"].problem)
    assert supervisor.stop(20) == []
    problem = supervisor.statuses()["flat:0"].problem or ""
    assert "login of *** failed" in problem


def test_a_driver_that_is_stuck_is_killed_and_started_again(
    loop: Callable[..., DriverLoop], supervised: Callable[..., Supervisor]
) -> None:
    supervisor = supervised(loop("time.sleep(600)", stuck_s=0.2))
    eventually(lambda: supervisor.statuses()["flat:0"].restarts >= 1)
    assert supervisor.statuses()["flat:0"].code == "driver-ended"


def test_an_orderly_stop_waits_for_the_batch_at_hand(loop: Callable[..., DriverLoop]) -> None:
    driver = loop(f"""
        def end(*_):
            tell({literal(progress(8))})
            tell({{"event": "stopped", "reason": "stop requested"}})
            sys.exit(0)
        signal.signal(signal.SIGTERM, end)
        tell({literal(progress(7))})
        while True: time.sleep(0.01)
    """)
    supervisor, _ = supervise(Job("flat:0", driver.run))
    supervisor.start()
    eventually(lambda: driver.progress.batch == 7)
    assert supervisor.stop(20) == []
    assert driver.progress.batch == 8
    assert driver.pid is None


def test_a_driver_that_does_not_stop_in_time_is_killed_with_all_that_it_started(
    loop: Callable[..., DriverLoop], tmp_path: Path
) -> None:
    driver = loop(
        f"""
        import subprocess
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        java = subprocess.Popen(["sleep", "600"])
        open({str(tmp_path / "java")!r}, "w").write(str(java.pid))
        tell({literal(progress())})
        time.sleep(600)
    """,
        drain_s=0.2,
    )
    supervisor, _ = supervise(Job("flat:0", driver.run))
    supervisor.start()
    eventually(lambda: driver.progress.batch == 0)
    assert supervisor.stop(20) == []
    eventually(lambda: not is_alive(int((tmp_path / "java").read_text())))


def test_a_program_that_is_not_there_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError):
        Child(["/nowhere/python"])


def test_a_driver_ends_with_its_starter_and_takes_its_children_along(tmp_path: Path) -> None:
    child = textwrap.dedent(f"""
        import subprocess, sys, time
        from daemon.process.signals import end_with_parent
        end_with_parent()
        java = subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE)
        open({str(tmp_path / "java")!r}, "w").write(str(java.pid))
        time.sleep(600)
    """)
    starter = textwrap.dedent(f"""
        import subprocess, sys, time
        command = [sys.executable, "-c", {child!r}]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
        time.sleep(600)
    """)
    process = subprocess.Popen([sys.executable, "-c", starter], cwd=Path.cwd())
    try:
        eventually(lambda: (tmp_path / "java").exists() and (tmp_path / "java").read_text())
    finally:
        process.kill()
        process.wait()
    for name in ("child", "java"):
        eventually(partial(_has_ended, int((tmp_path / name).read_text())))


def test_driver_loops_leave_no_threads_or_descriptors(loop: Callable[..., DriverLoop]) -> None:
    driver = loop("sys.exit(0)")

    def left() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()

    def has_restarted(supervisor: Supervisor) -> bool:
        return supervisor.statuses()["flat:0"].restarts >= 1

    before = left()
    for _ in range(3):
        supervisor, _ = supervise(Job("flat:0", driver.run))
        supervisor.start()
        eventually(partial(has_restarted, supervisor))
        assert supervisor.stop(20) == []
    assert left() == before
