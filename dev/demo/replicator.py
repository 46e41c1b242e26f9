"""Runs Tideline in the same way as users: a configuration file, ``tideline bootstrap``, ``tideline run`` and
its HTTP status.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from dev.stack.endpoints import Endpoints
from dev.stack.errors import ComponentFailed


TIDELINE: Final = (sys.executable, "-m", "daemon")
START_S: Final = 30.0
STOP_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of relay and replica; None for a value that has not been reported yet."""

    source_event: int | None
    topic_event: int | None
    applied_event: int | None
    lag_s: float | None
    copied_files: int
    quarantined: tuple[str, ...]
    problem: str | None

    @property
    def behind(self) -> int | None:
        """The number of source events that the replica has not applied yet."""
        if self.source_event is None or self.applied_event is None:
            return None
        return max(0, self.source_event - self.applied_event)


class Replicator:
    """One ``tideline run`` with one policy; all its files are in ``directory``."""

    def __init__(self, endpoints: Endpoints, directory: Path, *, db: str, topic: str | None = None) -> None:
        self.directory = directory
        self.db = db
        self.target_db = f"{db}_replica"
        self.config_file = directory / "tideline.yaml"
        self.log_file = directory / "tideline.log"
        self.config = _build_config(
            endpoints, directory, db=db, target_db=self.target_db, topic=topic or f"tideline.{db}"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> str:
        """Write the configuration and bootstrap the policy; return the output of the command."""
        self.write_config()
        return self.command("bootstrap", self.db)

    def write_config(self) -> None:
        """Write the configuration. Change ``config`` first, if necessary."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text(yaml.safe_dump(self.config, sort_keys=False))

    def command(self, *arguments: str) -> str:
        """Run one command of the command line and return its output.

        Raises ComponentFailed with its error output.
        """
        done = subprocess.run(
            [*TIDELINE, *arguments, "--config", str(self.config_file)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ComponentFailed(f"tideline {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def start(self, **environment: str) -> None:
        """Start the daemon and wait until it responds; raise ComponentFailed with the end of its log."""
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*TIDELINE, "run", "--config", str(self.config_file)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
            )
        deadline = time.monotonic() + START_S
        while self.get("/livez") is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ComponentFailed(f"tideline run did not start:\n{self.log_tail()}")
            time.sleep(0.05)

    def wait_until_following(self) -> None:
        """Wait until relay and replica have reported their positions; raise ComponentFailed with the log."""
        deadline = time.monotonic() + START_S
        while self.progress().behind is None:
            if self.pid is None or time.monotonic() > deadline:
                raise ComponentFailed(f"the replica does not follow:\n{self.log_tail()}")
            time.sleep(0.05)

    @property
    def pid(self) -> int | None:
        """The process id of the daemon; None if it does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> int | None:
        """Stop the daemon and return its exit code; None if it was never started."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            self._process.send_signal(sign)
        try:
            return self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    @property
    def address(self) -> str | None:
        """``host:port`` of the daemon's HTTP server; None if it is not known yet."""
        try:
            found = json.loads((self.directory / "state" / "http.json").read_text())
        except (OSError, ValueError):
            return None
        return f"{found['host']}:{found['port']}"

    def get(self, path: str) -> bytes | None:
        """Return the daemon's response to a request of ``path``; None if there is none or it is an error."""
        if self.address is None:
            return None
        try:
            # S310: the address of this demo's own daemon
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=5) as answer:  # noqa: S310
                return bytes(answer.read())
        except OSError:
            return None

    def progress(self) -> Progress:
        """Return the progress of all parts."""
        answer = self.get("/api/v1/status")
        status: dict[str, Any] = json.loads(answer) if answer else {}
        source, projection, copies = (
            _first_of(status, name) for name in ("sources", "projections", "copies")
        )
        return Progress(
            source.get("current_event_id"),
            source.get("relayed_event_id"),
            projection.get("event_id"),
            projection.get("lag_s"),
            copies.get("files", 0),
            tuple(projection.get("quarantined", ())),
            projection.get("problem") or source.get("problem"),
        )

    def log_tail(self, lines: int = 20) -> str:
        """Return the end of the daemon's log."""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])


def _first_of(status: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the first element of a list in the status; an empty mapping if the list is empty."""
    rows: list[dict[str, Any]] = status.get(name, [])
    return rows[0] if rows else {}


def _build_config(
    endpoints: Endpoints, directory: Path, *, db: str, target_db: str, topic: str
) -> dict[str, Any]:
    source = endpoints.source
    roots = [Path(root).as_uri() for root in source.directories]
    return {
        "sources": {"lake": {"metastore": [source.metastore], "topic": topic, "read_roots": roots}},
        "targets": {"dr": {"metastore": [endpoints.target.metastore]}},
        "policies": {db: {"source": "lake", "target": "dr", "database": db, "target_database": target_db}},
        "kafka": {"bootstrap": endpoints.kafka, "dead_letter_topic": f"{topic}.dead"},
        "state": {"dir": str(directory / "state")},
        "http": {"host": "127.0.0.1", "port": 0},
        "logs": {"format": "json"},
    }
