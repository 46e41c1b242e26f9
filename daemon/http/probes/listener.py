"""The listener for probes and metrics: a process that the daemon starts, reports to, and answers.

Kubernetes restarts a daemon whose probe is late, and Python runs one thread of a process at a time. In a
storm of a thousand connections during replication, a listener within the daemon answered after 0.2 to 0.4
seconds; this one, after less than 0.1. A daemon that hangs as a whole sends no reports, and one that has
ended closes the standard input of the process; both fail the probe.

The daemon binds the socket, so that a port in use is an error of the start, and connections wait while a
process that was killed is replaced.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from daemon.http.endpoints import Made, probe_answer
from daemon.http.probes.messages import METRICS, READY, Query, Report, read_query, write_answer, write_message
from daemon.http.transport.server import bind, name_address


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.config.settings.process import HttpConfig
    from daemon.process.logs import LogSettings


log = structlog.get_logger(__name__)
REPORT_S: Final = 2.0
"""How often the daemon reports: a fraction of the shortest ``supervisor.heartbeat_max_s``."""
SILENT_MAX_S: Final = 30.0
"""How long it may send no report, which only a daemon does that hangs as a whole."""
RESTART_S: Final = 1.0
"""The pause before a process that ended is replaced."""
STOP_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ProbeAnswers:
    """The daemon's answers. The functions return immediately, in any thread."""

    deadlines: Callable[[], Mapping[str, float]]
    """When each loop is stuck unless it has a heartbeat before."""
    ready: Callable[[], Made]
    metrics: Callable[[str], Made]
    """The metrics in a format that the header ``Accept`` names."""


class ProbesListener:
    """The process and its socket. Raises ConfigError if the address is unusable."""

    def __init__(
        self,
        config: HttpConfig,
        logs: LogSettings,
        answers: ProbeAnswers,
        refused: Callable[[str, int], None],
    ) -> None:
        """``refused`` counts refused connections and requests, by reason."""
        self._socket = bind(config.probes_host, _port(config), "http.probes_port")
        self.host = config.probes_host
        self.port: int = self._socket.getsockname()[1]
        self._logs = logs
        self._answers = answers
        self._refused = refused
        self._is_closing = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)

    @property
    def address(self) -> str:
        """The address as ``host:port``."""
        return name_address(self.host, self.port)

    def start(self) -> None:
        """Start the process. Requests are answered as soon as it listens; until then, they wait."""
        self._thread.start()

    def close(self) -> None:
        """End the process, within ``STOP_S``."""
        self._is_closing.set()
        if self._process is not None:
            self._process.kill()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
        self._socket.close()

    def _run(self) -> None:
        while not self._is_closing.is_set():
            try:
                with self._started() as (process, queries), suppress(ConnectionError):
                    self._serve(process, queries)
                problem = f"it ended with code {process.returncode}"
            except OSError as error:
                problem = str(error)
            if not self._is_closing.wait(RESTART_S):
                log.warning("the process for probes is started again", problem=problem)

    @contextmanager
    def _started(self) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                settings = {
                    "listener": self._socket.fileno(),
                    "queries": theirs.fileno(),
                    "level": self._logs.level,
                    "format": self._logs.format,
                }
                process = subprocess.Popen(  # noqa: S603 - our own program
                    [sys.executable, "-m", "daemon.http.probes", json.dumps(settings)],
                    stdin=subprocess.PIPE,
                    pass_fds=(self._socket.fileno(), theirs.fileno()),
                    start_new_session=True,
                )
            self._process = process
            if self._is_closing.is_set():
                process.kill()
            try:
                yield process, ours
            finally:
                process.kill()
                with suppress(OSError):  # what it has not read
                    process.communicate()

    def _serve(self, process: subprocess.Popen[bytes], queries: socket.socket) -> None:
        """Report and answer until the process ends. A write to one that has ended raises ConnectionError."""
        assert process.stdin is not None
        poll = select.poll()  # select would refuse a descriptor above 1,023
        poll.register(queries, select.POLLIN)
        with queries.makefile("rb") as incoming, queries.makefile("wb") as outgoing:
            while True:
                now_s = time.monotonic()
                write_message(process.stdin, Report.of(self._answers.deadlines(), now_s, SILENT_MAX_S))
                while (left_s := now_s + REPORT_S - time.monotonic()) > 0:
                    if not poll.poll(left_s * 1_000):
                        break
                    query = read_query(incoming)
                    if query is None:
                        return
                    write_answer(outgoing, self._answer(query))

    def _answer(self, query: Query) -> Made:
        for reason, number in query.refused.items():
            self._refused(reason, number)
        try:
            if query.path == READY:
                return self._answers.ready()
            assert query.path == METRICS, query.path
            return self._answers.metrics(query.accept)
        except Exception as error:  # noqa: BLE001 - the next query may be answered
            log.exception("a probe could not be answered", path=query.path)
            return probe_answer([f"the daemon could not answer: {type(error).__name__}"])


def _port(config: HttpConfig) -> int:
    if config.probes_port is not None:
        return config.probes_port
    return 0 if config.port == 0 else config.port + 1
