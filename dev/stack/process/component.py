"""A component as a process with its own session, a log, a pid file and a readiness check.

Tests kill, restart and inspect several components at once, and nothing may stay behind, even if their owner
is killed. Plain ``subprocess`` does not provide that. A component therefore:

* starts in its own session, so that Ctrl-C reaches only the owner, and the whole process group can be stopped
  at once;
* is ready when it responds (``check_ready``), not when a port is open or a time has passed; if it dies early,
  the start raises an error with the end of its log;
* leaves ``<name>.pid`` and ``<name>.log`` in its directory, so that another process (``stop_by_pid_file``) or
  the owner watch (``owner_watch``) can stop it, even after the owner was killed with SIGKILL;
* keeps its port and its data over ``restart``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dev.stack.errors import ComponentFailed


POLL_S = 0.05
LOG_TAIL_LINES = 30
KILLED_S = 60.0
"""How long a killed process may take to end. It always does, but a busy machine may need seconds to free the
memory of a JVM."""


class Component(ABC):
    """A process that can be started, checked, stopped and killed.

    Subclasses define the program (``command``, ``environment``), the files that must exist first
    (``prepare``) and when the component is ready (``check_ready``).
    """

    start_timeout_s = 90.0
    stop_timeout_s = 15.0

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory.resolve()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """The output of the component, over all its starts."""
        return self.directory / f"{self.name}.log"

    @property
    def pid_file(self) -> Path:
        """The file that contains the process id while the component runs."""
        return self.directory / f"{self.name}.pid"

    @property
    def pid(self) -> int | None:
        """The process id, or None if the component does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @abstractmethod
    def prepare(self) -> None:
        """Create the files that must exist before the first start. Called before every start, so it must be
        idempotent.
        """

    @abstractmethod
    def command(self) -> list[str]:
        """The program and its arguments. One of them must contain the path of the directory, which identifies
        the process.
        """

    def environment(self) -> dict[str, str]:
        """Environment variables in addition to the owner's."""
        return {}

    @abstractmethod
    def check_ready(self) -> None:
        """Return if the component is ready; raise OSError or TimeoutError if it is not ready yet."""

    def start(self) -> None:
        """Start and wait until the component is ready.

        Raises ComponentFailed with the end of the log if it dies or is not ready within ``start_timeout_s``.
        """
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Start without waiting; call ``wait_ready`` afterwards."""
        assert self.pid is None, f"{self.name} is already running"
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
        """Wait until the component is ready; raise ComponentFailed if it died or the time is over."""
        wait_until_ready(self, lambda: self.pid is not None, self.log_tail)

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after ``stop_timeout_s``; do nothing if the component does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the component, as a crash would."""
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
        """Return the path of the log and its last lines."""
        try:
            text = self.log.read_text(errors="replace")
        except FileNotFoundError:
            text = "(no log yet)"
        return f"{self.log}:\n" + "\n".join(text.splitlines()[-lines:])

    def rss_bytes(self) -> int:
        """Return the resident memory; 0 if the component does not run."""
        if self.pid is None:
            return 0
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def wait_until_ready(component: Component, alive: Callable[[], bool], log_tail: Callable[[], str]) -> None:
    """Call ``check_ready`` until it succeeds.

    Raises ComponentFailed if the component died or the time is over.
    """
    deadline = time.monotonic() + component.start_timeout_s
    while True:
        if not alive():
            raise ComponentFailed(f"{component.name} died while starting. {log_tail()}")
        try:
            component.check_ready()
        except (OSError, TimeoutError) as error:
            if time.monotonic() > deadline:
                waited = f"{component.start_timeout_s:.0f} s"
                raise ComponentFailed(
                    f"{component.name} was not ready within {waited}: {error}. {log_tail()}"
                ) from error
            time.sleep(POLL_S)
        else:
            return


def end_group(
    pid: int, sign: signal.Signals, timeout_s: float, child: subprocess.Popen[bytes] | None = None
) -> None:
    """Signal the process group and wait until its leader has ended; send SIGKILL after ``timeout_s``.

    A leader that has ended gets no signal, because its process id may have been reused. A child is always
    reaped; otherwise Python would print a warning when it collects the process object at some later moment.
    """
    waits_s = {sign: timeout_s} | {signal.SIGKILL: KILLED_S}
    for each, wait_s in waits_s.items():
        if _has_ended(pid, child):
            return
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(pid, each)
        if _wait_for_end(pid, wait_s, child):
            return


def _has_ended(pid: int, child: subprocess.Popen[bytes] | None) -> bool:
    return child.poll() is not None if child is not None else not _is_running(pid)


def _is_running(pid: int) -> bool:
    """Whether the process exists and is not a zombie.

    The command line is not enough: it is gone as soon as a process that ends has freed its memory, while its
    files and ports are still open and its parent cannot wait for it yet.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    state, *fields = stat.rpartition(")")[2].split()
    threads = int(fields[16])  # field 20 of proc(5); the leader may have ended before the other threads
    return state not in {"Z", "X"} or threads > 1


def _wait_for_end(pid: int, timeout_s: float, child: subprocess.Popen[bytes] | None) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if _has_ended(pid, child):
            return True
        time.sleep(POLL_S)
    return False


def stop_by_pid_file(pid_file: Path, timeout_s: float = Component.stop_timeout_s) -> bool:
    """Stop a component that another process started; return False if it has already ended.

    The process id may have been reused, so this stops only a process whose command line names the directory
    of the pid file.
    """
    pid = running_pid(pid_file)
    if pid is not None:
        end_group(pid, signal.SIGTERM, timeout_s)
    pid_file.unlink(missing_ok=True)
    return pid is not None


def running_pid(pid_file: Path) -> int | None:
    """Return the process id in the file if that process still runs from the directory of the file."""
    try:
        pid = int(pid_file.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return pid if os.fsencode(pid_file.resolve().parent) in _read_command_line(pid) else None


def _read_command_line(pid: int) -> bytes:
    """Return the command line; empty if there is no such process or it is a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
