"""``?watch``: the status as server-sent events, over a real socket."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daemon.http.access import Access, Gate
from daemon.http.transport.server import HttpServer
from daemon.service.command_line import call
from daemon.state_directory.directory import ADDRESS_FILE
from daemon.status import watching
from daemon.status.address import DaemonAddress
from daemon.status.client import watch_status
from daemon.status.model import DaemonStatus
from daemon.status.report import commands
from state.errors import Overloaded
from tests.builders.daemon.assembly import SECTIONS, app_of
from tests.builders.daemon.http_client import HOST, TIMEOUT_S, served
from tests.builders.daemon.loops import daemon_status, eventually


class Daemon:
    """The status that the server shows; tests change it."""

    def __init__(self) -> None:
        self.status = daemon_status(state="running")
        self.refused: list[str] = []

    def says(self, state: str) -> None:
        self.status = daemon_status(state=state)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Daemon:
    monkeypatch.setattr(watching, "PAUSE_S", 0.01)
    return Daemon()


@pytest.fixture
def server(daemon: Daemon) -> Iterator[HttpServer]:
    app = app_of(status=lambda: daemon.status, stuck=list)
    with served(Gate(app, Access(), daemon.refused.append)) as running:
        yield running


def watched(server: HttpServer) -> Generator[DaemonStatus, None, None]:
    return watch_status(DaemonAddress(f"http://{HOST}:{server.port}"), SECTIONS)


def test_each_change_is_sent_once_and_the_stream_ends_with_the_daemon(
    server: HttpServer, daemon: Daemon
) -> None:
    stream = watched(server)
    assert next(stream).state == "running"
    daemon.says("starting")
    assert next(stream).state == "starting"
    daemon.says("stopping")
    assert [each.state for each in stream] == ["stopping"]


def test_a_comment_is_sent_while_nothing_changes_and_a_known_status_is_not_sent_again(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "SILENT_S", 0.0)
    known = ""
    for first in ("id: ", ": unchanged"):
        with closing(http.client.HTTPConnection(HOST, server.port, timeout=TIMEOUT_S)) as connection:
            connection.request("GET", "/api/v1/status?watch", headers={"last-event-id": known})
            answer = connection.getresponse()
            assert answer.getheader("content-type") == "text/event-stream"
            assert answer.readline() == b": watching\n"
            answer.readline()
            line = answer.readline().decode()
            assert line.startswith(first)
            known = line.removeprefix("id: ").strip()


def test_a_watcher_too_many_is_refused_until_another_has_left(
    server: HttpServer, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "WATCHERS_MAX", 1)
    with closing(watched(server)) as first:
        next(first)
        with pytest.raises(Overloaded, match="too many clients watch the status"):
            next(watched(server))
    assert daemon.refused == ["watchers"]

    def accepted() -> bool:
        try:
            return next(watched(server)).state == "running"
        except Overloaded:
            return False

    eventually(accepted)


@pytest.mark.parametrize("is_elsewhere", [True, False])
def test_the_command_watches_a_daemon_elsewhere_and_that_of_its_state_directory(
    server: HttpServer, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_elsewhere: bool
) -> None:
    shown: list[str] = []

    def watch(
        reports: Callable[[], Iterable[DaemonStatus]], _: object, check: Callable[[DaemonStatus], str]
    ) -> None:
        for report in reports():
            shown.append(check(report))
            daemon.says("stopping")

    monkeypatch.setattr(commands, "_watch", watch)
    (tmp_path / ADDRESS_FILE).write_text(json.dumps({"host": HOST, "port": server.port}))
    config = tmp_path / "tideline.yaml"
    config.write_text(json.dumps({"state": {"dir": str(tmp_path)}}))
    there = ["--url", f"http://{HOST}:{server.port}"]
    assert call(["status", "--watch", *(there if is_elsewhere else ["-c", str(config)])]) == 0
    assert len(shown) == 2
