"""``tideline`` as a process with the real components: its configuration, its commands and its status."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from daemon.status.client import load_status
from daemon.status.model import DaemonStatus, ProjectionView
from dev.stack.endpoints import ClusterEndpoints, Endpoints
from state.errors import TidelineError
from tests.builders.daemon.assembly import SECTIONS
from tests.builders.daemon.loops import DEADLINE_S, first_that
from tests.builders.daemon.tideline_process import COMMAND, kafka_settings, tideline, write_config


END_TIMEOUT_S = 30.0


def status_when(
    state_dir: Path, condition: Callable[[DaemonStatus], object], deadline_s: float = DEADLINE_S
) -> DaemonStatus:
    """Return the first status of the running daemon for which ``condition`` holds; fail after
    ``deadline_s``."""
    return first_that(
        lambda status: status.state == "running" and condition(status),
        lambda: load_status(state_dir, SECTIONS),
        TidelineError,
        deadline_s=deadline_s,
    )


@dataclass
class RunningDaemon:
    """A daemon with one source and one policy; it runs during a ``with`` block."""

    directory: Path
    database: str
    process: subprocess.Popen[str] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    """Variables of the daemon in addition to those of the test."""
    verb: str = "run"
    """The command that it runs: ``run``, or ``relay``."""

    @property
    def config(self) -> Path:
        return self.directory / "tideline.yaml"

    @property
    def state_dir(self) -> Path:
        return self.directory / "state"

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return tideline(self.config, *arguments)

    def bootstrap(self) -> None:
        done = self.command("bootstrap", "shop")
        assert done.returncode == 0, done.stderr + done.stdout

    def start(self) -> None:
        with (self.directory / "daemon.log").open("a") as log:
            self.process = subprocess.Popen(
                [*COMMAND, self.verb, "-c", str(self.config)],
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                env=os.environ | self.environment,
            )

    def kill(self) -> None:
        """Kill it, as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(END_TIMEOUT_S)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it and return its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(END_TIMEOUT_S)

    def status_when(
        self, condition: Callable[[DaemonStatus], object], deadline_s: float = 240.0
    ) -> DaemonStatus:
        """Return the first status for which ``condition`` holds; fail after ``deadline_s``."""
        return status_when(self.state_dir, condition, deadline_s)

    def applied(self, event_id: int, deadline_s: float = 240.0) -> ProjectionView:
        """Wait until the replica has applied ``event_id``."""
        return self.status_when(
            lambda s: (s.projections[0].event_id or 0) >= event_id, deadline_s
        ).projections[0]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def configured(
    directory: Path,
    stack: Endpoints,
    *,
    topic: str,
    database: str,
    source: ClusterEndpoints | None = None,
    relay: dict[str, Any] | None = None,
    policy: dict[str, Any] | None = None,
    sections: dict[str, Any] | None = None,
) -> RunningDaemon:
    """Write the configuration of a daemon that keeps ``database`` as ``database_r``,
    with further settings of its policy and sections.

    ``source`` replaces the stack's.
    """
    source = source or stack.source
    places = (source.warehouse, source.external, source.cmroot)
    roots = [place if "://" in place else f"file:{place}" for place in places]
    values = {
        "sources": {
            "lake": {
                "metastore": [source.metastore],
                "topic": topic,
                "read_roots": roots,
                "relay": relay or {},
            }
        },
        "targets": {"dr": {"metastore": [stack.target.metastore]}},
        "policies": {
            "shop": {
                "source": "lake",
                "target": "dr",
                "database": database,
                "target_database": f"{database}_r",
                **(policy or {}),
            }
        },
        "kafka": kafka_settings(stack.kafka, topic),
        **(sections or {}),
    }
    write_config(directory, values)
    return RunningDaemon(directory, database)
