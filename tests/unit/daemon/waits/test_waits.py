"""Waits are answered by notification, however many there are, and take nothing from other requests. Over real
sockets."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from socket import socket

import pytest
from prometheus_client import CollectorRegistry
from pydantic import TypeAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.http.endpoints import probe_response
from daemon.http.problems import Problem
from daemon.http.transport.limits import Limits
from daemon.http.transport.server import HttpServer, bind
from daemon.waits.conditions import Moves, Reached, Unresolved, WaitKind, WaitParameters
from daemon.waits.metrics import WaitMetrics
from daemon.waits.routes import WaitAnswer, wait_route
from daemon.waits.waits import Waits
from state.errors import MetastoreUnavailable, NotFound
from tests.builders.daemon.forms import check_form
from tests.builders.daemon.http_client import HOST, Answer, asked
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.raw_clients import connect, status_on


@dataclass(frozen=True, kw_only=True)
class Wanted(WaitParameters):
    """What a projection is to reach."""

    projection: str
    event: int | None = None


@dataclass(eq=False)
class Positions:
    """What projections have reached; counts how often that was looked at."""

    reached: dict[str, int] = field(default_factory=dict)
    looks: list[str] = field(default_factory=list)

    def build(self, given: Wanted) -> AtLeast | Unresolved:
        if given.projection == "down":
            return Unresolved(_cannot_be_read)
        condition = AtLeast(self, given.projection, given.event or 1)
        return Unresolved(lambda: condition) if given.event is None else condition


def _cannot_be_read() -> AtLeast:
    raise MetastoreUnavailable("the metastore does not answer")


@dataclass(frozen=True)
class AtLeast:
    """The condition that a projection has reached an event."""

    positions: Positions
    projection: str
    event_id: int

    @property
    def projections(self) -> Collection[str]:
        return (self.projection,)

    def check(self) -> Reached:
        self.positions.looks.append(f"{self.projection}>={self.event_id}")
        if self.projection not in self.positions.reached:
            raise NotFound("no such projection", projection=self.projection)
        reached = self.positions.reached[self.projection]
        return Reached(
            is_true=reached >= self.event_id,
            source="lake",
            event_id=reached,
            wanted_event_id=self.event_id,
            reason="it is behind",
        )


class Served:
    """A server with the waits of two projections."""

    def __init__(self, waits_max: int = 5_000, connections: int = 16) -> None:
        self.positions = Positions({"a": 0, "b": 0})
        self.registry = CollectorRegistry()
        self.waits = Waits(waits_max, WaitMetrics(self.registry))
        kind = WaitKind(name="projection", parameters=Wanted, build=self.positions.build)
        other = WaitKind(name="other", parameters=Wanted, build=self.positions.build)
        routes = [wait_route(self.waits, [kind, other]), Route("/livez", _livez, methods=["GET"])]
        limits = Limits(connections=connections, connections_per_address=connections)
        self.server = HttpServer(Starlette(routes=routes), bind(HOST, 0), limits=limits)

    def move(self, projection: str, event_id: int) -> None:
        self.positions.reached[projection] = event_id
        self.waits.moved(projection)

    def present(self) -> float:
        return self.registry.get_sample_value("tideline_waits") or 0.0

    def ended(self, result: str) -> float:
        return self.registry.get_sample_value("tideline_waits_ended_total", {"result": result}) or 0.0

    def ask(self, query: str) -> Answer:
        return asked(self.server.port, f"/api/v1/wait?{query}")

    def begin(self, query: str) -> socket:
        """Send a request, and return its connection."""
        client = connect(self.server.port)
        client.sendall(f"GET /api/v1/wait?{query} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        return client


async def _livez(_request: Request) -> Response:
    return probe_response()


@contextmanager
def serving(waits_max: int = 5_000, connections: int = 16) -> Iterator[Served]:
    made = Served(waits_max, connections)
    with closing(made.server), closing(made.waits):
        made.server.start()
        yield made


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as made:
        yield made


def test_what_is_true_already_is_answered_at_once(served: Served) -> None:
    served.move("a", 7)
    answer = served.ask("projection=a&event=7")
    assert answer.status == 200
    found = json.loads(answer.text)
    assert (found["condition"], found["source"], found["event_id"], found["wanted_event_id"]) == (
        "projection",
        "lake",
        7,
        7,
    )
    check_form(TypeAdapter(WaitAnswer), answer.text.encode())


def test_a_wait_is_answered_when_its_projection_moves_and_not_looked_at_before(served: Served) -> None:
    with closing(served.begin("projection=a&event=5")) as client:
        eventually(lambda: served.positions.looks == ["a>=5"])
        for event_id in range(1, 50):
            served.move("b", event_id)
        served.move("a", 5)
        assert status_on(client) == 200
    assert served.positions.looks == ["a>=5", "a>=5"]


def test_a_wait_that_is_not_over_in_time_says_what_is_missing(served: Served) -> None:
    answer = served.ask("projection=a&event=5&timeout_s=0")
    assert answer.status == 504
    problem = json.loads(answer.text)
    assert (problem["code"], problem["message"]) == ("not-yet", "it is behind")
    assert (problem["context"]["event_id"], problem["context"]["wanted_event_id"]) == (0, 5)
    check_form(TypeAdapter(Problem), answer.text.encode())


def test_a_thousand_waits_hold_no_thread_and_keep_no_other_client_out() -> None:
    number = 1_000
    with serving(connections=4) as served, ExitStack() as stack:
        threads = threading.active_count()
        clients = []
        for index in range(number):
            clients.append(stack.enter_context(closing(served.begin(f"projection=a&event={index % 10 + 1}"))))
            eventually(lambda begun=index + 1: served.present() == begun)  # type: ignore[misc]  # a default
        assert asked(served.server.port, "/livez").status == 200
        assert threading.active_count() <= threads + 1
        served.positions.looks.clear()
        served.move("a", 10)
        assert [status_on(client) for client in clients] == [200] * number
        assert (
            len(served.positions.looks) <= 30
        )  # of ten conditions: once for the move, and what their last waits have begun
        eventually(lambda: served.present() == 0)


def test_waits_beyond_the_limit_are_refused_and_a_client_that_leaves_makes_room() -> None:
    with serving(waits_max=1) as served:
        with closing(served.begin("projection=a")):
            eventually(lambda: served.present() == 1)
            refused = served.ask("projection=a")
            assert (refused.status, "retry-after" in refused.headers) == (503, True)
        eventually(lambda: served.present() == 0)
        assert served.ask("projection=a&timeout_s=0").status == 504
        assert (served.ended("left"), served.ended("refused")) == (1, 1)


def test_a_stop_ends_all_waits(served: Served) -> None:
    with closing(served.begin("projection=a")) as client:
        eventually(lambda: served.positions.looks)
        served.waits.close()
        assert status_on(client) == 503
    assert served.ask("projection=a").status == 503


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("projection=none", 404, "not-found"),
        ("projection=down", 503, "metastore-unavailable"),
        ("", 400, "bad-input"),
        ("projection=a&other=b", 400, "bad-input"),
        ("projection=a&name=b", 400, "bad-input"),
        ("projection=a&timeout_s=241", 400, "bad-input"),
        ("projection=a&timeout_s=nan", 400, "bad-input"),
        ("projection=a&timeout_s=soon", 400, "bad-input"),
    ],
)
def test_a_request_that_cannot_succeed_is_answered_at_once(
    served: Served, query: str, status: int, code: str
) -> None:
    answer = served.ask(query)
    assert (answer.status, json.loads(answer.text)["code"]) == (status, code)


def test_a_projection_reports_only_what_has_changed() -> None:
    woken: list[str] = []
    moves = Moves(woken.append, "a")
    for seen in ((1, ()), (1, ()), (2, ()), (2, ("t",)), (2, ("t",))):
        moves.report(*seen)
    assert woken == ["a"] * 3
