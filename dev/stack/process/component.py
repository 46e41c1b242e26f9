"""One component as a process of its own group, with a log, a pid file and a readiness that is asked for.

Why not plain ``subprocess``: tests kill, restart and inspect components, several at once, and whatever happens to their
owner nothing may stay behind. So a component

* starts in its own session, which makes ctrl-c the owner's business alone and lets the whole group be ended at once;
* is ready when it *answers* (``ask``), not when a port is open or a time has passed; one that dies early raises with its log;
* leaves ``<name>.pid`` and ``<name>.log`` in its directory, so that another process can stop it (``stop_by_pid_file``) and
  the owner_watch (``reaper.py``) can end it when its owner is gone, even by kill -9;
* keeps its port and its data over ``restart``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dev.stack.errors import ComponentFailed


if TYPE_CHECKING:
    from collections.abc import Callable

POLL_S = 0.05
LOG_TAIL_LINES = 30


class Component(ABC):
    """A process that is started, asked, stopped and killed.

    Subclasses say what to run (``command``, ``environment``), what has to be there first (``prepare``) and how to tell
    that it serves (``ask``).
    """

    start_timeout_s = 90.0
    stop_timeout_s = 15.0

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory.resolve()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """Everything the component printed, over all its starts."""
        return self.directory / f"{self.name}.log"

    @property
    def pid_file(self) -> Path:
        """Holds the process id while the component runs."""
        return self.directory / f"{self.name}.pid"

    @property
    def pid(self) -> int | None:
        """The process id, or None when it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @abstractmethod
    def prepare(self) -> None:
        """Make what must be there before the first start; called before every start, so it has to be idempotent."""

    @abstractmethod
    def command(self) -> list[str]:
        """The program and its arguments; one of them must hold the directory's path (that is how it is recognised)."""

    def environment(self) -> dict[str, str]:
        """Variables beside the owner's own."""
        return {}

    @abstractmethod
    def ask(self) -> None:
        """Return when the component serves; raise OSError or TimeoutError when it does not yet."""

    def start(self) -> None:
        """Start and wait until it answers.

        Raises ComponentFailed with the log's tail when it dies or does not answer within ``start_timeout_s``.
        """
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Start without waiting; ``wait_ready`` belongs to it."""
        assert self.pid is None, f"{self.name} runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.prepare()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                env=os.environ | self.environment(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid_file.write_text(f"{self._process.pid}\n")

    def wait_ready(self) -> None:
        """Ask until it answers; raises ComponentFailed when it died or time is up."""
        wait_for_answer(self, lambda: self.pid is not None, self.log_tail)

    def stop(self) -> None:
        """Ask it to end, insist after ``stop_timeout_s``; fine when it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start on the same port and data."""
        self.stop()
        self.start()

    def _end(self, sign: signal.Signals) -> None:
        if self._process is not None:
            end_group(self._process.pid, sign, self.stop_timeout_s, self._process)
            self._process = None
        self.pid_file.unlink(missing_ok=True)

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """The last lines of the log, under its path."""
        try:
            text = self.log.read_text(errors="replace")
        except FileNotFoundError:
            text = "(no log yet)"
        return f"{self.log}:\n" + "\n".join(text.splitlines()[-lines:])

    def rss_bytes(self) -> int:
        """Resident memory; 0 when it does not run."""
        if self.pid is None:
            return 0
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def wait_for_answer(component: Component, alive: Callable[[], bool], log_tail: Callable[[], str]) -> None:
    """Ask until the component answers; raises ComponentFailed when it died or time is up."""
    deadline = time.monotonic() + component.start_timeout_s
    while True:
        if not alive():
            raise ComponentFailed(f"{component.name} ended while starting. {log_tail()}")
        try:
            component.ask()
        except (OSError, TimeoutError) as error:
            if time.monotonic() > deadline:
                waited = f"{component.start_timeout_s:.0f} s"
                raise ComponentFailed(
                    f"{component.name} did not answer within {waited}: {error}. {log_tail()}"
                ) from error
            time.sleep(POLL_S)
        else:
            return


def end_group(
    pid: int, sign: signal.Signals, timeout_s: float, child: subprocess.Popen[bytes] | None = None
) -> None:
    """Signal the process group and wait until its leader is gone; SIGKILL after the bound.

    A leader that has ended is not signalled: its number may belong to somebody else by now.
    """
    for each in (sign, signal.SIGKILL):
        if _ended(pid, child):
            return
        with suppress(ProcessLookupError):  # ended just now
            os.killpg(pid, each)
        if _gone(pid, timeout_s, child):
            return


def _ended(pid: int, child: subprocess.Popen[bytes] | None) -> bool:
    return child.poll() is not None if child is not None else not _command_line(pid)


def _gone(pid: int, timeout_s: float, child: subprocess.Popen[bytes] | None) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if _ended(pid, child):
            return True
        time.sleep(POLL_S)
    return False


def stop_by_pid_file(pid_file: Path, timeout_s: float = Component.stop_timeout_s) -> bool:
    """Stop what another process started; False when it is gone already.

    A pid may have been given to a stranger since: only a process whose command line names the pid file's directory is
    touched.
    """
    pid = running_pid(pid_file)
    if pid is not None:
        end_group(pid, signal.SIGTERM, timeout_s)
    pid_file.unlink(missing_ok=True)
    return pid is not None


def running_pid(pid_file: Path) -> int | None:
    """The process id in the file if that process still runs from the file's directory."""
    try:
        pid = int(pid_file.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return pid if os.fsencode(pid_file.resolve().parent) in _command_line(pid) else None


def _command_line(pid: int) -> bytes:
    """Empty when there is no such process, or it has ended and only waits to be collected by its parent."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
