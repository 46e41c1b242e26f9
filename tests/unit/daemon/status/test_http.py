"""HTTP over a real socket."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest

from daemon.http.transport.server import HttpServer, bind
from daemon.state_directory.directory import write_atomically
from daemon.status.address import DaemonAddress
from daemon.status.client import fetch_status, load_status
from daemon.status.model import DaemonStatus
from state.errors import ConfigError, MalformedEvent, NotFound, Transient
from tests.builders.daemon.assembly import SECTIONS, app_of
from tests.builders.daemon.http_client import asked, served
from tests.builders.daemon.loops import daemon_status


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.applications import Starlette


class Daemon:
    """The values that the server shows; tests change them."""

    def __init__(self) -> None:
        self.status = daemon_status()
        self.stuck: list[str] = []

    def app(self) -> Starlette:
        """Return the application that shows them."""
        return app_of(status=lambda: self.status, stuck=lambda: self.stuck)


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


@pytest.fixture
def server(daemon: Daemon, tmp_path: Path) -> Iterator[HttpServer]:
    with served(daemon.app(), tmp_path) as running:
        yield running


def ask(server: HttpServer, path: str, method: str = "GET") -> tuple[int, str, dict[str, str]]:
    answer = asked(server.port, path, method)
    return answer.status, answer.text, answer.headers


def test_alive_means_that_all_loops_have_heartbeats(server: HttpServer, daemon: Daemon) -> None:
    assert ask(server, "/livez")[0] == 200
    daemon.stuck = ["relay:lake"]
    code, body, _ = ask(server, "/livez")
    assert code == 503
    assert json.loads(body) == {"ok": False, "reasons": ["relay:lake has no heartbeat"]}


def test_ready_means_following_without_lag_and_a_failed_projection_does_not_affect_liveness(
    server: HttpServer, daemon: Daemon
) -> None:
    code, body, _ = ask(server, "/readyz")
    assert code == 503
    assert json.loads(body)["reasons"] == ["replication:hr is failed"]
    assert ask(server, "/livez")[0] == 200
    daemon.status = daemon_status(projections=daemon_status().projections[:1])
    assert ask(server, "/readyz")[0] == 200


def test_metrics_are_returned_as_text_with_their_type(server: HttpServer) -> None:
    code, body, headers = ask(server, "/metrics")
    assert code == 200
    assert headers["content-type"].startswith("text/plain")
    assert 'tideline_projection_event_id{projection="replication:shop",source="lake"} 1.23456e+06' in body


@pytest.mark.parametrize("version", ["abc", "1.x", "", "9" * 50])
@pytest.mark.parametrize("kind", ["application/openmetrics-text", "text/plain"])
def test_metrics_are_returned_whatever_version_a_client_names(
    server: HttpServer, kind: str, version: str
) -> None:
    answer = asked(server.port, "/metrics", headers={"Accept": f"{kind}; version={version}"})
    assert answer.status == 200
    assert "tideline_projection_event_id" in answer.text


def test_the_status_reads_back_as_it_was(server: HttpServer, daemon: Daemon) -> None:
    assert fetch_status(DaemonAddress(f"http://127.0.0.1:{server.port}"), SECTIONS) == daemon.status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/livez", "/metrics", "/api/v1/status"])
def test_nothing_can_be_changed(server: HttpServer, path: str, method: str) -> None:
    assert ask(server, path, method)[0] == 405


def test_other_paths_are_not_found(server: HttpServer) -> None:
    assert ask(server, "/api/v1/../../etc/passwd")[0] == 404


def test_a_port_in_use_is_a_configuration_error(server: HttpServer, daemon: Daemon) -> None:
    with pytest.raises(ConfigError) as caught:
        bind("127.0.0.1", server.port)
    assert caught.value.context["key"] == "http.port"


def test_the_daemon_is_found_by_its_address_file(daemon: Daemon, tmp_path: Path) -> None:
    with served(daemon.app(), tmp_path):
        assert load_status(tmp_path, SECTIONS) == daemon.status


def test_after_the_end_of_the_daemon_its_last_status_is_returned_as_stopped(
    daemon: Daemon, tmp_path: Path
) -> None:
    with pytest.raises(NotFound):
        load_status(tmp_path, SECTIONS)
    write_atomically(tmp_path / "http.json", {"host": "127.0.0.1", "port": free_port()})
    write_atomically(tmp_path / "status.json", daemon.status.to_json())
    known = load_status(tmp_path, SECTIONS)
    assert known.state == "stopped"
    assert known.projections == daemon.status.projections


def test_a_damaged_status_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text("{")
    with pytest.raises(NotFound):
        load_status(tmp_path, SECTIONS)


def test_another_server_at_the_address_is_recognised(server: HttpServer, daemon: Daemon) -> None:
    daemon.status = DaemonStatus("1", "h", 1, 0.0, 0.0)
    assert fetch_status(DaemonAddress(f"http://127.0.0.1:{server.port}"), SECTIONS).version == "1"
    with pytest.raises(Transient):
        fetch_status(DaemonAddress(f"http://127.0.0.1:{free_port()}"), SECTIONS)
    for url in ("ftp://x", "nonsense", "http://h:port"):
        with pytest.raises(ConfigError):
            fetch_status(DaemonAddress(url), SECTIONS)


def test_an_answer_that_is_not_a_status_is_malformed() -> None:
    from starlette.applications import Starlette

    with served(Starlette()) as stranger, pytest.raises(MalformedEvent):
        fetch_status(DaemonAddress(f"http://127.0.0.1:{stranger.port}"), SECTIONS)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
