"""``tideline`` as a process beside the real components: its configuration, its commands, its status."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import yaml

from daemon.asking import last_known
from state.errors import TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from daemon.status import DaemonStatus, ProjectionView
    from dev.stack.endpoints import ClusterEndpoints


COMMAND = [sys.executable, "-m", "daemon.cli"]
END_TIMEOUT_S = 30.0


@dataclass
class RunningDaemon:
    """One daemon with one source and one policy; in a ``with`` block it runs."""

    directory: Path
    database: str
    process: subprocess.Popen[str] | None = None

    @property
    def config(self) -> Path:
        return self.directory / "tideline.yaml"

    @property
    def state_dir(self) -> Path:
        return self.directory / "state"

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        return subprocess.run(
            [*COMMAND, *arguments, "-c", str(self.config)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def bootstrap(self) -> None:
        done = self.command("bootstrap", "shop")
        assert done.returncode == 0, done.stderr + done.stdout

    def start(self) -> None:
        with (self.directory / "daemon.log").open("a") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "run", "-c", str(self.config)], stdout=log, stderr=subprocess.STDOUT, text=True
            )

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it; return its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(END_TIMEOUT_S)

    def status_when(
        self, condition: Callable[[DaemonStatus], object], deadline_s: float = 240.0
    ) -> DaemonStatus:
        """Return the first status for which ``condition`` holds; fail after ``deadline_s``."""
        end = time.monotonic() + deadline_s
        last: object = None
        while time.monotonic() < end:
            try:
                last = status = last_known(self.state_dir)
                if status.state == "running" and condition(status):
                    return status
            except TidelineError as error:
                last = error
            time.sleep(0.05)
        raise AssertionError(f"did not come true in {deadline_s} s; last: {last}")

    def applied(self, event_id: int, deadline_s: float = 240.0) -> ProjectionView:
        """Wait until the replica has applied ``event_id``."""
        return self.status_when(
            lambda s: (s.projections[0].event_id or 0) >= event_id, deadline_s
        ).projections[0]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(END_TIMEOUT_S)


def configured(
    directory: Path,
    *,
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    kafka: str,
    topic: str,
    database: str,
    relay: dict[str, Any] | None = None,
) -> RunningDaemon:
    """Write the configuration of a daemon that keeps ``database`` as ``database_r``."""
    roots = [f"file:{place}" for place in (source.warehouse, source.external, source.cmroot)]
    values = {
        "sources": {
            "lake": {
                "metastore": [source.metastore],
                "topic": topic,
                "read_roots": roots,
                "relay": relay or {},
            }
        },
        "targets": {"dr": {"metastore": [target.metastore]}},
        "policies": {
            "shop": {
                "source": "lake",
                "target": "dr",
                "database": database,
                "target_database": f"{database}_r",
            }
        },
        "kafka": {"bootstrap": kafka, "dead_letter_topic": f"{topic}.dead"},
        "state": {"dir": str(directory / "state")},
        "http": {"port": 0},
        "logs": {"format": "json"},
        "supervisor": {"backoff_min_s": 0.05, "backoff_max_s": 0.5},
    }
    daemon = RunningDaemon(directory, database)
    daemon.config.write_text(yaml.safe_dump(values))
    return daemon
