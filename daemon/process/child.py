"""Runs a Tideline command as a child process: starts it, reads its events, and ends it.

Children are the Spark driver of a flat table (``tideline split run``) and the miner (``tideline keys mine``).
A child reports its progress as JSON lines on a pipe; its other output goes to the daemon's log. It leads its
own process group, so that ending the child ends its JVM too: a JVM that survived its driver could still write
while the next driver begins. When the daemon dies, the child ends on its own (``daemon.process.signals``).

The daemon counts and ignores lines that are too long or not a JSON object.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from daemon.process.inbox import error_from_json
from state.errors import ConfigError, TidelineError


STARTED: Final = "started"
STOPPED: Final = "stopped"
"""Events of every child: it has started; it stops, with the ``reason`` and, after an error, the
``message``."""
LISTEN_S: Final = 0.5
"""How long one call of ``listen`` waits for output."""
LAST_LINES_CHARS_MAX: Final = 1_500
EVENT_BYTES_MAX: Final = 1 << 20
LOG_BYTES_MAX: Final = 8 * 1024
LAST_LINES: Final = 8
"""Last lines of its output kept for the error that reports its end."""
_STACK: Final = ("\t", " ")
"""The beginnings of lines of a Java stack trace, which follow the error itself."""
_CHUNK: Final = 64 * 1024
_CHUNKS_MAX: Final = 64
_END_S: Final = 10.0
_STEP_S: Final = 0.1


class Lines:
    """Cuts a stream of bytes into lines of at most ``bytes_max``; drops and counts longer ones."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._rest = b""
        self._is_skipping = False
        self.refused = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that ``data`` completes, without line ends."""
        *whole, rest = (self._rest + data).split(b"\n")
        for line in whole:
            if self._is_skipping:
                self._is_skipping = False
            elif len(line) > self._bytes_max:
                self.refused += 1
            else:
                yield line
        self._rest = self._limit(rest)

    def _limit(self, rest: bytes) -> bytes:
        if not self._is_skipping and len(rest) > self._bytes_max:
            self.refused += 1
            self._is_skipping = True
        return b"" if self._is_skipping else rest


def build_command(*words: str, config_file: Path | None) -> list[str]:
    """Return the command line of a Tideline command with the daemon's own configuration."""
    options = [] if config_file is None else ["--config", str(config_file)]
    return [sys.executable, "-m", "daemon", *words, *options]


def reported_error(stopped: Mapping[str, Any], clean: Callable[[str], str]) -> TidelineError:
    """Return the error that a child reported as the reason of its end; ``clean`` masks secrets in it."""
    reason, message = str(stopped.get("reason")), clean(str(stopped.get("message", "")))
    return error_from_json({"code": reason, "message": message.removeprefix(f"[{reason}] ")})


class Child:
    """One run of a child: a context manager that leaves no process behind. Use it from one thread only."""

    def __init__(self, command: Sequence[str]) -> None:
        self._events = Lines(EVENT_BYTES_MAX)
        self._output = Lines(LOG_BYTES_MAX)
        self._malformed = 0
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._pipe, child_end = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [*command, "--progress-fd", str(child_end)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(child_end,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._pipe)
            raise ConfigError(
                "a child process cannot be started", program=command[0], reason=str(error)
            ) from error
        finally:
            os.close(child_end)
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._stdout = self._process.stdout.fileno()
        for descriptor in (self._pipe, self._stdout):
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        """The child's process id, which is also the id of its process group."""
        return self._process.pid

    @property
    def refused(self) -> int:
        """The number of lines on the pipe that were too long or not a JSON object."""
        return self._events.refused + self._malformed

    @property
    def exit_code(self) -> int | None:
        """The child's exit code: None while it runs, negative if a signal ended it."""
        return self._process.poll()

    def listen(self, timeout_s: float) -> tuple[list[Mapping[str, Any]], list[str]]:
        """Wait for at most ``timeout_s``, and return the received events and the lines of other output."""
        events: list[Mapping[str, Any]] = []
        output: list[str] = []
        if not self._selector.get_map():
            time.sleep(min(timeout_s, _STEP_S))  # both pipes are closed, but the process still runs
            return events, output
        for key, _ in self._selector.select(timeout_s):
            data = self._read(key.fd)
            if key.fd == self._pipe:
                events += self._parse(data)
            else:
                output += [
                    line.decode(errors="replace").rstrip() for line in self._output.feed(data) if line.strip()
                ]
        self.last_lines.extend(line for line in output if not line.startswith(_STACK))
        return events, output

    def send(self, lines: Iterable[bytes]) -> None:
        """Write to the child's standard input, which stays open; raise OSError if the child has ended."""
        assert self._process.stdin is not None
        for line in lines:
            self._process.stdin.write(line)
        self._process.stdin.flush()

    def recent_output(self, clean: Callable[[str], str]) -> str | None:
        """Return the last lines of the child's output with secrets masked; None if there are none."""
        return clean(" | ".join(self.last_lines))[-LAST_LINES_CHARS_MAX:] or None

    def request_stop(self) -> None:
        """Request that the child ends after its current batch."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the child's process group. Its work may be interrupted at any time."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(
            subprocess.TimeoutExpired
        ):  # the kernel holds it: the table's lock then refuses the next one
            self._process.wait(_END_S)
        self._selector.close()
        os.close(self._pipe)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _read(self, descriptor: int) -> bytes:
        """Return the available bytes, at most a few megabytes, so that the last events of a child arrive
        together.
        """
        buffer = bytearray()
        for _ in range(_CHUNKS_MAX):
            try:
                data = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                break
            if not data:
                self._selector.unregister(descriptor)
                break
            buffer += data
        return bytes(buffer)

    def _parse(self, data: bytes) -> Iterator[Mapping[str, Any]]:
        for line in self._events.feed(data):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                yield event
            else:
                self._malformed += 1
