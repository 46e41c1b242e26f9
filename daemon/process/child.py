"""A command of ours as a child process: started, listened to, ended.

Children are a flat table's Spark driver (``tideline split run``) and the miner (``tideline keys mine``). A child tells how it goes
as JSON lines on a pipe; what it writes otherwise is passed on to the daemon's log. It leads a process group of its own, so that
ending it ends its JVM: a driver whose JVM lived on could still write while the next one begins. When the daemon dies the child
ends by itself (``daemon.process.parent_watch``).

What comes from the child has limits: a line that is too long or no JSON object is counted and left out.
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
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self

from daemon.process.inbox import remote_error
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from state.errors import TidelineError


STARTED: Final = "started"
STOPPED: Final = "stopped"
"""Events that every child tells: it follows; it ends, and why (``reason``, of an error also ``message``)."""
LISTEN_S: Final = 0.5
"""How long whoever follows a child listens at a time."""
WORDS_MAX: Final = 1_500
EVENT_BYTES_MAX: Final = 1 << 20
LOG_BYTES_MAX: Final = 8 * 1024
LAST_WORDS: Final = 8
"""Lines of its own output that are kept, for the error that tells of its end."""
_STACK: Final = ("\t", " ")
"""How lines of a Java stack trace begin: what went wrong stands above them."""
_CHUNK: Final = 64 * 1024
_CHUNKS_MAX: Final = 64
_END_S: Final = 10.0
_STEP_S: Final = 0.1


class Lines:
    """Cuts a stream of bytes into lines of at most ``bytes_max``; longer ones are left out and counted."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._rest = b""
        self._is_skipping = False
        self.refused = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that ``data`` completes, without their ends."""
        *whole, rest = (self._rest + data).split(b"\n")
        for line in whole:
            if self._is_skipping:
                self._is_skipping = False
            elif len(line) > self._bytes_max:
                self.refused += 1
            else:
                yield line
        self._rest = self._kept(rest)

    def _kept(self, rest: bytes) -> bytes:
        if not self._is_skipping and len(rest) > self._bytes_max:
            self.refused += 1
            self._is_skipping = True
        return b"" if self._is_skipping else rest


def command_of(*words: str, config_file: Path | None) -> list[str]:
    """Return how one of tideline's commands is started with the daemon's own configuration."""
    options = [] if config_file is None else ["--config", str(config_file)]
    return [sys.executable, "-m", "daemon", *words, *options]


def told_error(stopped: Mapping[str, Any], clean: Callable[[str], str]) -> TidelineError:
    """Return the error that a child told of as its reason to end; ``clean`` takes secrets out of it."""
    reason, message = str(stopped.get("reason")), clean(str(stopped.get("message", "")))
    return remote_error({"code": reason, "message": message.removeprefix(f"[{reason}] ")})


class Child:
    """One run of a child, a context manager: at its end nothing of it is left. Used by one thread."""

    def __init__(self, command: Sequence[str]) -> None:
        self._events = Lines(EVENT_BYTES_MAX)
        self._output = Lines(LOG_BYTES_MAX)
        self._malformed = 0
        self.last_words: deque[str] = deque(maxlen=LAST_WORDS)
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
                "a child's program cannot be started", program=command[0], reason=str(error)
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
        """The child's process id, and its group's."""
        return self._process.pid

    @property
    def refused(self) -> int:
        """Lines on the pipe that were too long or no JSON object."""
        return self._events.refused + self._malformed

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative where a signal ended it."""
        return self._process.poll()

    def listen(self, timeout_s: float) -> tuple[list[Mapping[str, Any]], list[str]]:
        """Wait at most ``timeout_s`` and return what came: events, and lines of output."""
        events: list[Mapping[str, Any]] = []
        output: list[str] = []
        if not self._selector.get_map():
            time.sleep(min(timeout_s, _STEP_S))  # both pipes are closed: only its end is left to come
            return events, output
        for key, _ in self._selector.select(timeout_s):
            data = self._read(key.fd)
            if key.fd == self._pipe:
                events += self._parsed(data)
            else:
                output += [
                    line.decode(errors="replace").rstrip() for line in self._output.feed(data) if line.strip()
                ]
        self.last_words.extend(line for line in output if not line.startswith(_STACK))
        return events, output

    def said(self, clean: Callable[[str], str]) -> str | None:
        """Return its last words without secrets, None where it said nothing."""
        return clean(" | ".join(self.last_words))[-WORDS_MAX:] or None

    def ask_to_stop(self) -> None:
        """Ask it to end after the batch at hand."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the whole group at once: everything that a child does may be cut off at any moment."""
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
        """Return what is there, some megabytes at most: what it said last has to be heard at once."""
        found = bytearray()
        for _ in range(_CHUNKS_MAX):
            try:
                data = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                break
            if not data:
                self._selector.unregister(descriptor)
                break
            found += data
        return bytes(found)

    def _parsed(self, data: bytes) -> Iterator[Mapping[str, Any]]:
        for line in self._events.feed(data):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                yield event
            else:
                self._malformed += 1
