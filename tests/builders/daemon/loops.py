"""Loops, statuses and waiting, for tests of the daemon."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from daemon.process.loops.heartbeat import Heartbeat
from daemon.process.loops.loop import Job
from daemon.process.loops.retry_policy import RestartPolicy
from daemon.process.loops.supervisor import Supervisor
from daemon.replica.status.copies import CopyStatus
from daemon.status.model import DaemonStatus, ProjectionView, SourceStatus
from handlers.failures import Backoff, TableFailure


T = TypeVar("T")
DEADLINE_S = 120.0
"""How long a test waits for an expected state. Only a failing test waits this long; a busy machine must not
cause a failure."""


def eventually(
    condition: Callable[[], object], deadline_s: float = DEADLINE_S, *, pause_s: float = 0.002
) -> None:
    """Wait until ``condition`` holds, looking every ``pause_s``; fail after ``deadline_s``."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(pause_s)


def first_that(
    condition: Callable[[T], object],
    ask: Callable[[], T],
    *not_yet: type[Exception],
    deadline_s: float = DEADLINE_S,
) -> T:
    """Poll until ``condition`` holds for the result; errors of type ``not_yet`` are retried. Fail after
    ``deadline_s``."""
    end = time.monotonic() + deadline_s
    last, problem = None, None
    while time.monotonic() < end:
        try:
            last, problem = ask(), None
            if condition(last):
                return last
        except not_yet as error:
            problem = error
        time.sleep(0.05)
    raise AssertionError(f"did not come true in {deadline_s} s; last: {last}, {problem!r}")


class Counts:
    """Loop measures that only record."""

    def __init__(self) -> None:
        self.failed: list[tuple[str, str]] = []
        self.restarted: list[str] = []

    def loop_failed(self, loop: str, code: str) -> None:
        """Record the failure."""
        self.failed.append((loop, code))

    def loop_restarted(self, loop: str) -> None:
        """Record the restart."""
        self.restarted.append(loop)


class Scripted:
    """A loop that follows a script, one entry per run: it raises the error, or (None) runs until it is
    stopped."""

    def __init__(self, *script: Exception | None, progress: bool = False) -> None:
        self._script = list(script)
        self._progress = progress
        self.runs = 0
        self.running = threading.Event()

    def run(self, heartbeat: Heartbeat) -> None:
        """Run the next entry of the script; repeat the last one."""
        step = self._script[min(self.runs, len(self._script) - 1)]
        self.runs += 1
        if self._progress:
            heartbeat.progress()
        if step is not None:
            raise step
        heartbeat.following()
        self.running.set()
        while not heartbeat.stopping.wait(0.005):
            heartbeat.beat()

    def close(self) -> None:
        """Release nothing."""


def supervise(
    *jobs: Job, heartbeat_max_s: float = 60.0, attempts_max: int = 3, failed_s: float = 3600.0
) -> tuple[Supervisor, Counts]:
    """Return a supervisor with very short pauses, and its measures; a failed loop is tried again after
    ``failed_s``."""
    counts = Counts()
    backoff = RestartPolicy(
        min_s=0.001,
        max_s=0.002,
        attempts_max=attempts_max,
        failed=Backoff(failed_s, failed_s),
        settled_s=0.02,
    )
    return Supervisor(jobs, backoff=backoff, heartbeat_max_s=heartbeat_max_s, measures=counts), counts


def daemon_status(**changes: object) -> DaemonStatus:
    """Return a status with an example of every part."""
    values: dict[str, object] = {
        "version": "1.2.3",
        "host": "box",
        "pid": 42,
        "started_s": 1_000_000.0,
        "time_s": 1_000_000.0 + 3 * 3600 + 300,
        "state": "running",
        "sources": (
            SourceStatus("lake", 1_234_567, 1_234_560, "following", 7, 2.0, records=10, size_bytes=999),
            SourceStatus("pond", 88),
        ),
        "projections": (
            ProjectionView(
                "replication:shop", "lake", "following", "1234560", 1_234_560, 7, 2.4, target="dr/shop_r"
            ),
            ProjectionView(
                "replication:hr",
                "lake",
                "failed",
                "90.1/3",
                89,
                1_234_478,
                None,
                ("hr.pay",),
                "[gap] events are missing",
                "gap",
                restarts=2,
                failures=(TableFailure("hr.pay", 88, 1_000_000, "file-lost", "[file-lost] gone"),),
                repair="bootstrap {table}",
            ),
        ),
        "sections": {"copies": (CopyStatus("shop", 1_200, 3 * 1024**3, waiting=4, fallbacks=1),)},
    }
    # Sections that the capabilities report even when empty, so that a status reads back as it was.
    sections: dict[str, object] = {
        "loads": (),
        "left": (),
        "unreplicated": (),
        "compactions": (),
        "external": (),
        "verification": (),
        "flats": (),
        "mining": None,
        "endpoints": (),
        "retention": (),
        "points": (),
        "daemons": (),
    }
    sections |= values["sections"] | changes.pop("sections", {})  # type: ignore[operator]  # both are dicts
    # Names are the fields
    return DaemonStatus(**(values | changes | {"sections": sections}))  # type: ignore[arg-type]
