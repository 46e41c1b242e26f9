"""One client's connection and its own connection to the metastore.

Each client has a connection of its own to the metastore, because the server keeps state for each connection: the user of
``set_ugi``, for example. Requests are read completely before anything is sent, so the metastore never sees half of a request.
Either side closing, failing or being silent for too long ends this session and no other.
"""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING, Final

import structlog

from daemon.endpoint.streams import (
    DETECTION_BYTES,
    Disconnected,
    Incoming,
    Peer,
    Transport,
    detect_transport,
    receive_request,
)
from daemon.endpoint.successors import SuccessorCalls
from state.errors import AmbiguousCall, BadInput, MetastoreUnavailable, TidelineError


if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.endpoint.metrics import EndpointMetrics
    from daemon.endpoint.responders import Responder
    from daemon.endpoint.settings import EndpointSettings
    from daemon.endpoint.wire import Message
    from handlers.metastore.connection import Address


log = structlog.get_logger(__name__)

CLIENT_GONE: Final = "client-gone"
"""Code under which a client's own disconnection in the middle of a call is counted."""


class ClientGone(Exception):
    """The client closed its connection, or did not read its answer in time."""


class Upstream:
    """The session's connection to the metastore."""

    def __init__(self, settings: EndpointSettings, transport: Transport) -> None:
        self._settings = settings
        self._transport = transport
        self.address, handle = connect(settings.metastores, settings.connect_s)
        self.peer = Peer(handle)

    def send(self, request: Message) -> None:
        """Send a request; raise AmbiguousCall."""
        try:
            self.peer.send(self._transport.wrap(request.to_bytes()), self._settings.request_s)
        except OSError as error:
            raise self._lost(request, error) from error

    def exchange(self, request: Message) -> Message:
        """Send a request and return its complete answer; raise AmbiguousCall, BadInput, LimitExceeded."""
        self.send(request)
        incoming = Incoming(lambda: self._receive(request), self._transport, self._settings.answer_bytes_max)
        answer = incoming.message(incoming.read_to_end())
        _check_end(incoming, request)
        return answer

    def forward(self, request: Message, client: Peer) -> None:
        """Send a request and pass its answer on as it arrives; raise AmbiguousCall, BadInput or ClientGone."""
        self.send(request)
        if request.is_oneway:
            return
        incoming = Incoming(
            lambda: self._receive(request),
            self._transport,
            sink=lambda piece: deliver(client, piece, self._settings.request_s),
        )
        incoming.read_to_end()
        _check_end(incoming, request)

    def _receive(self, request: Message) -> bytes:
        try:
            return self.peer.receive(self._settings.answer_s)
        except (OSError, Disconnected) as error:
            raise self._lost(request, error) from error

    def _lost(self, request: Message, error: Exception) -> AmbiguousCall:
        return AmbiguousCall(
            "the connection to the metastore broke before the answer was complete",
            call=request.name,
            address=str(self.address),
            reason=str(error),
            hint="The client's connection was closed, as the metastore would have done.",
        )


def _check_end(incoming: Incoming, request: Message) -> None:
    if incoming.unread():
        raise BadInput("the metastore sent more than one answer", call=request.name)


def connect(addresses: Sequence[Address], timeout_s: float) -> tuple[Address, socket.socket]:
    """Connect to the first server that accepts; raise MetastoreUnavailable."""
    reasons = []
    for address in addresses:
        try:
            return address, socket.create_connection((address.host, address.port), timeout_s)
        except OSError as error:
            reasons.append(f"{address}: {error}")
    raise MetastoreUnavailable("the metastore cannot be reached", reasons=reasons)


def deliver(client: Peer, data: bytes, timeout_s: float) -> None:
    """Send bytes to the client; raise ClientGone."""
    try:
        client.send(data, timeout_s)
    except OSError as error:
        raise ClientGone(str(error)) from error


class Session:
    """Serves one client until either side closes the connection."""

    def __init__(self, client: Peer, settings: EndpointSettings, metrics: EndpointMetrics) -> None:
        self._client = client
        self._settings = settings
        self._metrics = metrics
        self._responders: Sequence[Responder] = (SuccessorCalls(metrics),)
        self._transport: Transport | None = None
        self._upstream: Upstream | None = None

    def run(self) -> None:
        """Answer calls; never raises for what a client or the metastore does."""
        try:
            self._serve()
        except TidelineError as error:
            self._metrics.errors.labels(error.code).inc()
            log.warning("a client's connection was closed", code=error.code, problem=str(error))
        except (ClientGone, OSError, EOFError) as error:
            self._metrics.errors.labels(CLIENT_GONE).inc()
            log.info("a client disconnected in the middle of a call", problem=str(error))
        finally:
            self.close()

    def close(self) -> None:
        """Close both connections."""
        self._client.close()
        if self._upstream is not None:
            self._upstream.peer.close()

    def abort(self) -> None:
        """End the session from another thread, in the middle of a call if need be."""
        upstream = self._upstream
        for peer in (self._client, *([upstream.peer] if upstream is not None else [])):
            shut_down(peer.handle, socket.SHUT_RDWR)

    def finish(self) -> None:
        """End the session from another thread, after the call in progress."""
        shut_down(self._client.handle, socket.SHUT_RD)

    def _serve(self) -> None:
        while self._wait_for_request():
            transport = self._transport or self._detect()
            request = receive_request(
                self._client,
                transport,
                bytes_max=self._settings.request_bytes_max,
                complete_s=self._settings.request_s,
            )
            self._answer(request, transport)

    def _wait_for_request(self) -> bool:
        """Wait for the first bytes of a request; return False if the connection ended without one."""
        if self._client.unread:
            return True
        poll = select.poll()  # not select.select, which fails for descriptors above 1,023
        poll.register(self._client.handle, select.POLLIN)
        if self._upstream is not None:
            poll.register(self._upstream.peer.handle, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(self._settings.idle_s * 1000)}
        if ready != {self._client.handle.fileno()}:
            return False  # idle for too long, or the metastore closed its connection
        try:
            self._client.unread = self._client.receive(self._settings.request_s)
        except (Disconnected, ConnectionError):
            return False
        return True

    def _detect(self) -> Transport:
        deadline = time.monotonic() + self._settings.request_s
        start = b""
        while len(start) < DETECTION_BYTES:
            start += self._client.receive(deadline - time.monotonic())
        self._client.unread = start
        self._transport = detect_transport(start)
        return self._transport

    def _answer(self, request: Message, transport: Transport) -> None:
        started = time.perf_counter()
        upstream = self._upstream or self._connect(request, transport)
        for responder in self._responders:
            answer = responder.respond(request, upstream)
            if answer is not None:
                self._reply(answer, transport)
                self._metrics.call_s.labels("translated").observe(time.perf_counter() - started)
                return
        upstream.forward(request, self._client)
        self._metrics.forwarded.inc()
        self._metrics.call_s.labels("forwarded").observe(time.perf_counter() - started)

    def _connect(self, request: Message, transport: Transport) -> Upstream:
        try:
            self._upstream = Upstream(self._settings, transport)
        except MetastoreUnavailable as error:
            if not request.is_oneway:
                self._reply(request.failure(f"Tideline: {error.message}"), transport)
            raise
        return self._upstream

    def _reply(self, answer: Message, transport: Transport) -> None:
        deliver(self._client, transport.wrap(answer.to_bytes()), self._settings.request_s)


def shut_down(handle: socket.socket, how: int) -> None:
    """Shut a socket down; harmless if it is closed."""
    try:
        handle.shutdown(how)
    except OSError:
        return
