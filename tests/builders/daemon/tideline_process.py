"""``tideline`` as a process: its configuration, its commands and its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.builders.daemon.loops import DEADLINE_S


COMMAND = [sys.executable, "-c", "from daemon.service.command_line import main; main()"]
COMMAND_TIMEOUT_S = 60.0


def write_config(directory: Path, values: Mapping[str, object]) -> Path:
    """Write ``values`` with what a daemon in a test needs: its own state directory and port, and short
    pauses."""
    path = directory / "tideline.yaml"
    own = {
        "state": {"dir": str(directory / "state")},
        "http": {"port": 0},
        "logs": {"format": "json"},
        "supervisor": {"backoff_min_s": 0.05, "backoff_max_s": 0.5},
    }
    path.write_text(yaml.safe_dump({**values, **own}))
    return path


def kafka_settings(bootstrap: str, topic: str) -> dict[str, str]:
    """Return the ``kafka`` section of a daemon whose topic is not shared."""
    return {"bootstrap": bootstrap, "dead_letter_topic": f"{topic}.dead"}


def tideline(
    config: Path, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [*COMMAND, *arguments, "-c", str(config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


@contextmanager
def running(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Run ``command`` during the block; kill it afterwards if it still runs."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def daemon(config: Path, command: str = "run") -> Iterator[subprocess.Popen[str]]:
    """Run the daemon, or only its relay."""
    with running([*COMMAND, command, "-c", str(config)]) as process:
        yield process


def ended(process: subprocess.Popen[str]) -> str:
    """Stop a daemon as an operator does, and return its output."""
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, output
    return output
