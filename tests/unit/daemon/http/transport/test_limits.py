"""What silent, slow and greedy clients can take from others: nothing. Over real sockets."""

from __future__ import annotations

import gc
import socket
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from daemon.http.endpoints import JSON, Made, build_endpoint, made_response, probe_response
from daemon.http.parameters import Parameters
from daemon.http.transport import server as server_module
from daemon.http.transport.answering import Lane
from daemon.http.transport.limits import HEAD_BYTES_MAX, Limits, group_of
from daemon.http.transport.server import RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES, HttpServer, bind
from state.errors import BadInput
from tests.builders.daemon.http_client import HOST, asked
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.raw_clients import connect, connected, is_closed, rest_of, status_on


LONG_S = 1_000.0
LARGE_BYTES = 16 * 1024 * 1024
"""More than the buffers of two sockets hold."""
GET = b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Questions:
    """An application whose answers wait until the test releases them."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.begun = threading.Semaphore(0)
        self.on_livez: Callable[[], object] = bool
        self.held: weakref.ref[object] | None = None

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/failing", self._failing, methods=["GET"]),
                Route("/client", self._client, methods=["GET"]),
                Route("/livez", self._livez, methods=["GET"]),
                Route("/slow", self._slow, methods=["GET"]),
                Route("/status", self._status, methods=["GET"]),
                Route("/large", self._large, methods=["GET"]),
                Route("/body", self._body, methods=["POST"]),
            ]
        )

    async def _livez(self, _request: Request) -> Response:
        self.on_livez()
        return probe_response()

    async def _failing(self, request: Request) -> Response:
        def make() -> Made:
            large = Questions()
            self.held = weakref.ref(large)
            raise BadInput("too wide", size=len(repr(large)))

        return await made_response(request, make, Lane.MEMORY)

    async def _client(self, request: Request) -> Response:
        assert request.client is not None
        return PlainTextResponse(request.client.host)

    async def _slow(self, request: Request) -> Response:
        def make() -> Made:
            self.begun.release()
            assert self.released.wait(60)
            return Made(b"{}", JSON)

        return await made_response(request, make, Lane.MEMORY)

    async def _status(self, request: Request) -> Response:
        return await made_response(request, lambda: Made(b"{}", JSON), Lane.STATUS)

    async def _large(self, request: Request) -> Response:
        return await made_response(request, lambda: Made(b"x" * LARGE_BYTES, JSON), Lane.STORE)

    async def _body(self, request: Request) -> Response:
        self.begun.release()
        return PlainTextResponse(await request.body())


@pytest.fixture
def refused() -> Counter[str]:
    return Counter()


@pytest.fixture
def questions() -> Iterator[Questions]:
    made = Questions()
    yield made
    made.released.set()


@contextmanager
def limited(questions: Questions, refused: Counter[str], **limits: float) -> Iterator[HttpServer]:
    """Serve with limits of which only the given ones can be reached."""
    times = dict.fromkeys(("head_s", "body_s", "unread_s", "answer_s"), LONG_S)
    own = Limits(**{**times, **limits})  # type: ignore[arg-type]  # numbers of connections are integers
    count = threading.Lock()

    def refuse(reason: str) -> None:
        with count:
            refused[reason] += 1

    with closing(HttpServer(questions.app(), bind(HOST, 0), limits=own, refused=refuse)) as server:
        server.start()
        yield server


def test_an_answer_that_failed_leaves_nothing_behind(questions: Questions, refused: Counter[str]) -> None:
    """Sixty clients that ask for too wide a cover otherwise took 2.4 GB, until garbage was collected."""
    gc.disable()
    try:
        with limited(questions, refused) as server:
            assert asked(server.port, "/failing").status == 400
            eventually(lambda: questions.held is not None and questions.held() is None)
    finally:
        gc.enable()


def test_a_client_cannot_claim_another_address(questions: Questions, refused: Counter[str]) -> None:
    with limited(questions, refused) as server:
        assert asked(server.port, "/client", headers={"X-Forwarded-For": "192.0.2.1"}).text == HOST


def test_seventy_silent_connections_keep_nobody_out(questions: Questions, refused: Counter[str]) -> None:
    with limited(questions, refused, connections=64) as server, connected(server.port, 70):
        assert [asked(server.port, "/livez").status for _ in range(10)] == [200] * 10
    assert set(refused) == {"address"}


def test_four_hundred_connections_take_no_more_descriptors_than_are_allowed(
    questions: Questions, refused: Counter[str]
) -> None:
    with (
        limited(questions, refused, connections=32, connections_per_address=500) as server,
        connected(server.port, 400) as clients,
    ):
        assert asked(server.port, "/livez").status == 200
        eventually(lambda: sum(not is_closed(client) for client in clients) < 32)
    assert refused["connections"] >= 400 + 1 - 32


def test_the_connection_that_has_waited_longest_gives_way(
    questions: Questions, refused: Counter[str]
) -> None:
    with limited(questions, refused, connections=2) as server, connected(server.port, 2) as (first, second):
        second.sendall(GET % b"/livez")
        assert status_on(second) == 200
        assert asked(server.port, "/livez").status == 200
        assert rest_of(first) == b""
        second.sendall(GET % b"/livez")
        assert status_on(second) == 200


def test_clients_that_do_not_read_their_answers_keep_nobody_out(
    questions: Questions, refused: Counter[str]
) -> None:
    limits = {"connections": 4, "answers_bytes": 8 * LARGE_BYTES}
    with limited(questions, refused, **limits) as server, connected(server.port, 4) as clients:
        for client in clients:
            client.sendall(GET % b"/large")
        for client in clients:
            assert client.recv(1) == b"H"
        eventually(lambda: asked(server.port, "/livez").status == 200)
        assert [asked(server.port, "/livez").status for _ in range(10)] == [200] * 10


def test_clients_that_do_not_send_their_bodies_keep_nobody_out(
    questions: Questions, refused: Counter[str]
) -> None:
    with limited(questions, refused, connections=4) as server, connected(server.port, 4) as clients:
        for client in clients:
            client.sendall(b"POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nx")
            assert questions.begun.acquire(timeout=60)
        assert [asked(server.port, "/livez").status for _ in range(10)] == [200] * 10


def test_a_newcomer_is_refused_only_while_every_connection_has_a_question(
    questions: Questions, refused: Counter[str]
) -> None:
    with limited(questions, refused, connections=2) as server:
        with closing(connect(server.port)) as first, closing(connect(server.port)) as second:
            for client in (first, second):
                client.sendall(GET % b"/slow")
                assert questions.begun.acquire(timeout=60)
            with closing(connect(server.port)) as third:
                answer = rest_of(third)
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"retry-after: " in answer
            questions.released.set()
            assert status_on(first) == 200
        assert refused == {"connections": 1}


def test_one_address_has_a_share_of_the_connections(questions: Questions, refused: Counter[str]) -> None:
    with (
        limited(questions, refused, connections=4, connections_per_address=2) as server,
        connected(server.port, 1, "127.0.0.2") as others,
        connected(server.port, 10, "127.0.0.3") as greedy,
    ):
        eventually(lambda: sum(not is_closed(client) for client in greedy) == 2)
        others[0].sendall(GET % b"/livez")
        assert status_on(others[0]) == 200
    assert refused == {"address": 8}


def test_a_request_is_answered_before_the_many_that_another_address_sent_before(
    questions: Questions, refused: Counter[str]
) -> None:
    refused_before: list[int] = []
    server = HttpServer(
        questions.app(),
        bind(HOST, 0),
        limits=Limits(connections=64),
        refused=lambda reason: refused.update([reason]),
    )
    with (
        closing(server),
        connected(server.port, 600, "127.0.0.2"),
        closing(connect(server.port)) as other,
    ):
        questions.on_livez = lambda: refused_before.append(refused.total())
        other.sendall(GET % b"/livez")
        server.start()
        assert status_on(other) == 200
        eventually(lambda: refused.total() == 600 - 63)
    assert refused_before[0] < 100


@pytest.mark.parametrize(
    ("sent", "limits", "reason"),
    [
        (b"", {"head_s": 0.1}, "head"),
        (b"GET /livez HTTP/1.1\r\nhost: loc", {"head_s": 0.1}, "head"),
        (GET % b"/livez", {"head_s": 0.1}, "head"),
        (b"POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nx", {"body_s": 0.1}, "body"),
        (GET % b"/large", {"unread_s": 0.1}, "unread"),
        (GET % b"/slow", {"answer_s": 0.1}, "answer"),
    ],
    ids=["nothing", "half a head", "no second request", "half a body", "unread", "an endless answer"],
)
def test_a_client_that_keeps_the_server_waiting_is_disconnected(
    questions: Questions, refused: Counter[str], sent: bytes, limits: dict[str, float], reason: str
) -> None:
    with limited(questions, refused, **limits) as server, closing(connect(server.port)) as client:
        client.sendall(sent)
        eventually(lambda: refused[reason] == 1)
        assert len(rest_of(client)) < LARGE_BYTES
        assert asked(server.port, "/status").status == 200


def test_a_slow_head_is_cut_off_however_often_a_byte_arrives(
    questions: Questions, refused: Counter[str]
) -> None:
    with limited(questions, refused, head_s=0.1) as server, closing(connect(server.port)) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nx: ")

        def send_until_closed() -> bool:
            try:
                client.sendall(b"y")
            except ConnectionError:
                return True
            return is_closed(client)

        eventually(send_until_closed)
    assert refused == {"head": 1}


def test_a_head_has_a_limit(questions: Questions, refused: Counter[str]) -> None:
    with limited(questions, refused) as server, closing(connect(server.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nx: " + b"y" * (HEAD_BYTES_MAX + 1))
        assert rest_of(client).startswith(b"HTTP/1.1 4")


def test_questions_beyond_the_queue_are_refused_while_the_status_and_probes_answer(
    questions: Questions, refused: Counter[str]
) -> None:
    with (
        limited(questions, refused, memory_workers=2, waiting=3) as server,
        connected(server.port, 20) as clients,
    ):
        for client in clients:
            client.sendall(GET % b"/slow")
        eventually(lambda: refused["busy"] == 15)
        assert asked(server.port, "/livez").status == 200
        assert asked(server.port, "/status").status == 200
        answer = asked(server.port, "/slow")
        assert (answer.status, answer.headers["retry-after"]) == (503, "2")
        assert '"code":"overloaded"' in answer.text
        questions.released.set()
        assert sorted(map(status_on, clients)) == [200] * 5 + [503] * 15


def test_an_address_that_fills_the_queue_gives_way_to_another(
    questions: Questions, refused: Counter[str]
) -> None:
    with (
        limited(questions, refused, memory_workers=1, waiting=3) as server,
        connected(server.port, 6, "127.0.0.2") as greedy,
        connected(server.port, 1, "127.0.0.3") as others,
    ):
        for client in greedy:
            client.sendall(GET % b"/slow")
        eventually(lambda: refused["busy"] == 2)
        others[0].sendall(GET % b"/slow")
        eventually(lambda: refused["busy"] == 3)
        questions.released.set()
        assert status_on(others[0]) == 200
        assert sorted(map(status_on, greedy)) == [200] * 3 + [503] * 3


def test_answers_that_nobody_reads_have_a_common_budget(questions: Questions, refused: Counter[str]) -> None:
    with limited(questions, refused, answers_bytes=3 * LARGE_BYTES) as server:
        with connected(server.port, 5) as clients:
            for client in clients:
                client.sendall(GET % b"/large")
            eventually(lambda: refused["memory"] == 3)
            assert asked(server.port, "/large").status == 503
            assert asked(server.port, "/status").status == 200
        eventually(lambda: asked(server.port, "/large").status == 200)


def test_an_answer_larger_than_the_budget_is_sent_alone(questions: Questions, refused: Counter[str]) -> None:
    with limited(questions, refused, answers_bytes=1) as server:
        assert len(asked(server.port, "/large").text) == LARGE_BYTES
        assert refused == {}


def test_descriptors_that_are_reserved_are_not_given_to_clients(
    questions: Questions, refused: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with limited(questions, refused) as server:
        monkeypatch.setattr(server_module, "is_reserved", lambda _: True)
        with closing(connect(server.port)) as client:
            assert rest_of(client).startswith(b"HTTP/1.1 503")
        monkeypatch.undo()
        assert asked(server.port, "/livez").status == 200
    assert refused == {"descriptors": 1}


def test_a_query_in_a_thread_may_fail_unexpectedly_without_ending_it(refused: Counter[str]) -> None:
    def fail(_name: str, _parameters: Parameters) -> dict[str, object]:
        raise RuntimeError("a defect")

    works = build_endpoint(Parameters, lambda *_: {})
    app = Starlette(routes=[Route("/fails", build_endpoint(Parameters, fail)), Route("/works", works)])
    with closing(HttpServer(app, bind(HOST, 0), limits=Limits(store_workers=1))) as server:
        server.start()
        assert [asked(server.port, path).status for path in ("/fails", "/works")] == [500, 200]


def test_addresses_are_grouped_by_who_may_have_them() -> None:
    assert group_of("10.0.0.1") != group_of("10.0.0.2")
    assert group_of("::ffff:10.0.0.1") == group_of("10.0.0.1")
    assert group_of("2001:db8::1") == group_of("2001:db8::ffff:1") != group_of("2001:db8:1::1")
    assert group_of("fe80::1%eth0") == group_of("fe80::2%eth0")


def test_a_storm_of_newcomers_closes_no_connection_before_its_request_is_read(
    questions: Questions, refused: Counter[str]
) -> None:
    with (
        limited(questions, refused, connections=16) as server,
        connected(server.port) as (probe,),
        ExitStack() as storm,
    ):
        for address in ("127.0.1.1", "127.0.1.2", "127.0.1.3"):
            storm.enter_context(connected(server.port, 60, address))
        eventually(lambda: refused["connections"] >= 180 + 1 - 16)
        probe.sendall(GET % b"/livez")
        assert status_on(probe) == 200


def test_a_client_that_does_not_wait_for_its_answer_gets_one_and_is_disconnected(
    questions: Questions, refused: Counter[str]
) -> None:
    with limited(questions, refused) as server, connected(server.port) as (client,):
        client.sendall(GET % b"/livez" * 20)
        assert rest_of(client).count(b"200 OK") == 1
        second = connect(server.port)
        for _ in range(3):
            second.sendall(GET % b"/livez")
            assert status_on(second) == 200
        second.close()


def test_buffers_of_the_kernel_do_not_grow_for_a_client_that_does_not_read(
    questions: Questions, refused: Counter[str]
) -> None:
    with limited(questions, refused) as server, connected(server.port) as (client,):
        client.sendall(GET % b"/large")
        eventually(lambda: server.answering._held_bytes[False] == LARGE_BYTES)
        (connection,) = server._server._connections._open
        transport = connection.exchange.transport  # type: ignore[union-attr]
        eventually(lambda: transport.get_write_buffer_size() > 0)
        handle = transport.get_extra_info("socket")
        assert handle.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * SEND_BUFFER_BYTES
        assert handle.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * RECEIVE_BUFFER_BYTES
