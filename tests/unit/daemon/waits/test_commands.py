"""``tideline wait``: its requests and its exit codes, against a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.http.endpoints import JSON, build_response, problem_response
from daemon.service.command_line import call
from daemon.status.address import DaemonAddress
from daemon.waits import commands
from daemon.waits.commands import REQUEST_S, RETRY_S
from state.errors import BadInput, NotFound, NotYet, Overloaded, TidelineError, Transient
from tests.builders.daemon.http_client import HOST, served


TRUE = b'{"source": "lake", "event_id": 7, "waited_s": 0.25, "left_out": ["sales.broken"]}'


@dataclass
class Daemon:
    """A daemon that answers from a script."""

    script: list[TidelineError | None]
    port: int = 0
    asked: list[dict[str, str]] = field(default_factory=list)

    async def answer(self, request: Request) -> Response:
        self.asked.append(dict(request.query_params))
        error = self.script.pop(0)
        return build_response(TRUE, JSON) if error is None else problem_response(error)

    def call(self, *arguments: str) -> int:
        return call(["wait", *arguments, "--url", f"http://{HOST}:{self.port}"])


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon([])
    routes = [Route("/api/v1/wait", made.answer, methods=["GET"])]
    with served(Starlette(routes=routes)) as server:
        made.port = server.port
        yield made


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, 0),
        (NotYet("it is behind"), 3),
        (Transient("the metastore does not answer"), 4),
        (Overloaded("too many"), 4),
        (NotFound("no such policy"), 5),
        (BadInput("event = x"), 1),
    ],
)
def test_the_exit_code_says_how_the_wait_has_ended(
    daemon: Daemon, error: TidelineError | None, code: int
) -> None:
    daemon.script = [error]
    assert daemon.call("--replica", "shop", "--timeout", "0") == code
    assert daemon.asked == [{"replica": "shop", "timeout_s": "0.000"}]


def test_what_is_true_is_printed_and_what_is_left_out_is_a_warning(
    daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.script = [None]
    assert daemon.call("--replica", "shop", "--event", "7") == 0
    printed = capsys.readouterr()
    assert printed.out == "true after 0.2 s, as of event 7 of lake\n"
    assert printed.err == "not up to date: sales.broken\n"


@pytest.mark.parametrize(
    ("arguments", "parameters"),
    [
        (
            ["--table", "db.t", "--partition", "dt=2024-01-01/hr=5"],
            {"table": "db.t", "partition": "dt=2024-01-01/hr=5"},
        ),
        (
            ["--range", "dt", "2024-01-01..2024-02-01", "--fact", "sales"],
            {"column": "dt", "range": "2024-01-01..2024-02-01", "fact": "sales"},
        ),
    ],
)
def test_options_are_the_parameters_of_the_request(
    daemon: Daemon, arguments: list[str], parameters: dict[str, str]
) -> None:
    daemon.script = [None]
    assert daemon.call(*arguments, "--timeout", "0") == 0
    assert daemon.asked == [{**parameters, "timeout_s": "0.000"}]


def test_exactly_one_condition_is_required(daemon: Daemon) -> None:
    assert daemon.call() == 2
    assert daemon.call("--replica", "shop", "--table", "a.b", "--partition", "x=1") == 2
    assert daemon.asked == []


def test_without_a_daemon_the_wait_is_unavailable(tmp_path: Path) -> None:
    config = tmp_path / "tideline.yaml"
    config.write_text(f"state: {{dir: {tmp_path / 'state'}}}\n")
    assert call(["wait", "--replica", "shop", "-c", str(config)]) == 4


def test_a_long_wait_repeats_its_request_with_the_first_event(daemon: Daemon) -> None:
    daemon.script = [NotYet("behind", wanted_event_id=12), Overloaded("too many"), None]
    times, pauses = iter([0.0, 0.0, 240.0, 240.0, 240.0, 242.0]), list[float]()
    address = DaemonAddress(f"http://{HOST}:{daemon.port}")
    answer: dict[str, Any] = commands._wait(
        address, {"replica": "shop"}, 600.0, clock=lambda: next(times), pause=pauses.append
    )
    assert answer["event_id"] == 7
    assert pauses == [RETRY_S]
    assert daemon.asked == [
        {"replica": "shop", "timeout_s": f"{REQUEST_S:.3f}"},
        {"replica": "shop", "event": "12", "timeout_s": "240.000"},
        {"replica": "shop", "event": "12", "timeout_s": "240.000"},
    ]
