"""The process for probes and metrics: ``python -m daemon.http.probes SETTINGS``.

It owns the listener, so silent or slow clients, or too many of them, do not affect the daemon. It answers
``/livez`` from the daemon's last report, and queries the daemon for everything else, one query at a time. It
ends with the daemon, however the daemon ends, because the daemon holds the other end of its standard input.
Signals to the whole group of processes do not end it: the daemon answers probes until it has stopped.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from typing import IO, NoReturn

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.http.endpoints import UNROUTED, Made, made_response, metrics_response, probe_response
from daemon.http.probes.messages import METRICS, READY, Query, Report, read_answer, read_report, write_message
from daemon.http.transport.answering import Lane
from daemon.http.transport.limits import PROBES
from daemon.http.transport.server import HttpServer
from daemon.process.logs import LogSettings, configure_logs
from state.errors import Overloaded


class DaemonLink:
    """The daemon, as this process sees it."""

    def __init__(self, reports: IO[bytes], queries: socket.socket) -> None:
        """Wait for the first report. Raises EOFError if the daemon has ended."""
        self._reports = reports
        self._outgoing, self._answers = queries.makefile("wb"), queries.makefile("rb")
        self._refused: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._report = self._read()

    def follow(self) -> NoReturn:
        """Read reports until the daemon ends; then raise EOFError."""
        while True:
            self._report = self._read()

    def reasons(self) -> list[str]:
        """Return why the daemon needs a restart."""
        return self._report.reasons(time.monotonic())

    def count_refused(self, reason: str) -> None:
        """Count a refusal; the daemon gets the count with the next query."""
        with self._lock:
            self._refused[reason] += 1

    def ask(self, path: str, accept: str = "") -> Made:
        """Return the daemon's answer; raise Overloaded if it ends. One thread at a time."""
        with self._lock:
            refused, self._refused = self._refused, Counter()
        try:
            write_message(self._outgoing, Query(path, accept, dict(refused)))
            made = read_answer(self._answers)
        except OSError:
            made = None
        if made is None:
            raise Overloaded("the daemon is stopping", hint="Repeat the request when it runs again.")
        return made

    def _read(self) -> Report:
        report = read_report(self._reports)
        if report is None:
            raise EOFError
        return report


def build_app(link: DaemonLink) -> Starlette:
    """Return the routes. The thread for the status queries the daemon."""

    async def livez(_request: Request) -> Response:  # noqa: RUF029 - answered from memory
        return probe_response(link.reasons())

    async def readyz(request: Request) -> Response:
        return await made_response(request, lambda: link.ask(READY), Lane.STATUS)

    async def metrics(request: Request) -> Response:
        return await metrics_response(request, lambda accept: link.ask(METRICS, accept))

    routes = [
        Route("/livez", livez, methods=["GET"]),
        Route(READY, readyz, methods=["GET"]),
        Route(METRICS, metrics, methods=["GET"]),
    ]
    return Starlette(routes=routes, exception_handlers=UNROUTED)


def main() -> NoReturn:
    """Serve until the daemon ends."""
    settings = json.loads(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    configure_logs(LogSettings(settings["level"], settings["format"]))
    try:
        link = DaemonLink(sys.stdin.buffer, socket.socket(fileno=settings["queries"]))
        listener = socket.socket(fileno=settings["listener"])
        HttpServer(
            build_app(link), listener, limits=PROBES, refused=link.count_refused, name="probes"
        ).start()
        link.follow()
    except EOFError:
        os._exit(0)  # without the daemon, connections have no use


main()
