"""One client's connection and its own connection to the metastore.

Each client has its own connection to the metastore, because the server keeps state for each connection: the
user of ``set_ugi``, for example. If either side closes its connection, fails or is silent for too long, only
this session ends.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from typing import TYPE_CHECKING, Final

import structlog

from daemon.endpoint.filter_texts import FilterTexts
from daemon.endpoint.protocol import sasl
from daemon.endpoint.protocol.peer import Disconnected, remaining_s, shut_down
from daemon.endpoint.protocol.streams import DETECTION_BYTES, Transport, detect_transport, receive_request
from daemon.endpoint.successors import SuccessorCalls
from daemon.endpoint.upstream import ClientGone, Upstream, deliver
from state.errors import BadInput, MetastoreUnavailable, TidelineError


if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.endpoint.metrics import EndpointMetrics
    from daemon.endpoint.protocol.peer import Peer
    from daemon.endpoint.protocol.request_budget import RequestBudget
    from daemon.endpoint.protocol.wire import Message
    from daemon.endpoint.responders import Responder
    from daemon.endpoint.settings import EndpointSettings


log = structlog.get_logger(__name__)

BLOCKED_S: Final = 10.0
"""A session whose client has not accepted a piece of its answer for this time counts as waiting."""
CLIENT_GONE: Final = "client-gone"
"""The error code under which the endpoint counts clients that disconnect during a call."""


class Session:
    """Serves one client until either side closes the connection."""

    def __init__(
        self,
        client: Peer,
        settings: EndpointSettings,
        metrics: EndpointMetrics,
        budget: RequestBudget,
        responders: Sequence[Responder] = (),
    ) -> None:
        """Serve a client; the session tries ``responders`` before those that every session has."""
        self._client = client
        self._account = budget.open(self.abort)
        self._waiting_since: float | None = time.monotonic()
        self._settings = settings
        self._metrics = metrics
        self._responders: Sequence[Responder] = (*responders, SuccessorCalls(metrics))
        self._filters = FilterTexts(metrics)
        self._upstream: Upstream | None = None
        self._poll = select.poll()
        self._poll.register(client.handle, select.POLLIN)

    @property
    def waiting_since(self) -> float | None:
        """The time since which the session waits for its client (monotonic clock); None during a call.
        Thread-safe.
        """
        blocked = self._client.blocked_since
        if blocked is not None and time.monotonic() - blocked >= BLOCKED_S:
            return blocked
        return self._waiting_since

    def run(self) -> None:
        """Answer calls until the connection ends. Handles all errors of the client and the metastore."""
        try:
            self._serve()
        except TidelineError as error:
            self._metrics.errors.labels(error.code).inc()
            log.warning("a client's connection was closed", code=error.code, problem=str(error))
        except (ClientGone, OSError, EOFError) as error:
            self._metrics.errors.labels(CLIENT_GONE).inc()
            log.debug("a client disconnected in the middle of a call", problem=str(error))
        finally:
            self.close()

    def close(self) -> None:
        """Close both connections."""
        self._account.release()
        self._client.close()
        if self._upstream is not None:
            self._upstream.peer.close()

    def abort(self) -> None:
        """End the session at once, even during a call. Thread-safe."""
        upstream = self._upstream
        for peer in (self._client, *([upstream.peer] if upstream is not None else [])):
            shut_down(peer.handle, socket.SHUT_RDWR)

    def finish(self) -> None:
        """End the session after the call in progress. Thread-safe."""
        shut_down(self._client.handle, socket.SHUT_RD)

    def _serve(self) -> None:
        self._accept_tls()
        if not self._wait_for_request(min(self._settings.first_byte_s, self._settings.idle_s)):
            return
        start = self._read_start()
        transport = self._begin_sasl() if sasl.is_sasl(start) else detect_transport(start)
        while transport is not None and self._wait_for_request():
            request = receive_request(
                self._client,
                transport,
                bytes_max=self._settings.request_bytes_max,
                complete_s=self._settings.request_s,
                account=self._account,
            )
            self._account.complete()
            self._waiting_since = None
            self._answer(request, transport)
            del request
            self._account.release()
            self._waiting_since = time.monotonic()

    def _accept_tls(self) -> None:
        if self._settings.tls is None:
            return
        try:
            self._client.accept_tls(self._settings.tls, self._settings.connect_s)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise  # such as the health check of a load balancer, which only connects
        except ssl.SSLError as error:
            raise BadInput("the client's TLS handshake failed", reason=str(error)) from error

    def _wait_for_request(self, idle_s: float | None = None) -> bool:
        """Wait for the first bytes of a request; return False if the connection ended without one."""
        deadline = time.monotonic() + (self._settings.idle_s if idle_s is None else idle_s)
        try:
            while not self._client.has_unread():
                if not self._wait_for_bytes(deadline):
                    return False
                self._client.unread = self._client.receive_now()
        except (Disconnected, ConnectionError):
            return False
        return True

    def _wait_for_bytes(self, deadline: float) -> bool:
        """Wait until the client sends. Returns False after the deadline, or if the metastore closed its
        connection.
        """
        upstream = self._upstream
        ready = self._poll.poll(max(0.0, remaining_s(deadline)) * 1000)
        client = self._client.handle.fileno()
        if upstream is None or all(descriptor == client for descriptor, _ in ready):
            return bool(ready)
        return not upstream.peer.receive_now()  # TLS sends its own messages, and nothing else arrives

    def _read_start(self) -> bytes:
        start = sasl.read_exactly(self._client, DETECTION_BYTES, time.monotonic() + self._settings.request_s)
        self._client.unread = start + self._client.unread
        return start

    def _begin_sasl(self) -> Transport | None:
        """Let the client authenticate itself. Returns the transport of its calls, None if the connection has
        ended.
        """
        settings, client = self._settings, self._client
        try:
            upstream = self._open_upstream(Transport.FRAMED)
        except MetastoreUnavailable as error:
            deliver(client, sasl.error_message(f"Tideline: {error.message}"), settings.request_s)
            raise
        if not sasl.negotiate(client, upstream.peer, time.monotonic() + settings.request_s, self._account):
            return None
        self._metrics.authenticated.inc()
        if not self._wait_for_request():
            return None
        deadline = time.monotonic() + settings.request_s
        if sasl.begins_with_plain_frame(client, deadline, settings.request_bytes_max, self._account):
            return Transport.FRAMED
        self._metrics.passed_through.inc()
        self._account.complete()
        sasl.pass_through(
            client,
            upstream.peer,
            idle_s=settings.idle_s,
            send_s=settings.request_s,
            moved=self._note_activity,
        )
        return None

    def _note_activity(self) -> None:
        """Restart the waiting time, in a connection whose calls the endpoint cannot read."""
        self._waiting_since = time.monotonic()

    def _answer(self, request: Message, transport: Transport) -> None:
        started = time.perf_counter()
        upstream = self._upstream or self._connect(request, transport)
        request = self._filters.translate(request, upstream)
        for responder in self._responders:
            answer = responder.respond(request, upstream)
            if answer is not None:
                self._reply(answer, transport)
                self._metrics.call_s.labels("translated").observe(time.perf_counter() - started)
                return
        upstream.forward(self._filters.order(request, upstream), self._client)
        self._metrics.forwarded.inc()
        self._metrics.call_s.labels("forwarded").observe(time.perf_counter() - started)

    def _connect(self, request: Message, transport: Transport) -> Upstream:
        try:
            return self._open_upstream(transport)
        except MetastoreUnavailable as error:
            if not request.is_oneway:
                self._reply(request.failure(f"Tideline: {error.message}"), transport)
            raise

    def _open_upstream(self, transport: Transport) -> Upstream:
        self._upstream = Upstream(self._settings, transport)
        self._poll.register(self._upstream.peer.handle, select.POLLIN)
        return self._upstream

    def _reply(self, answer: Message, transport: Transport) -> None:
        start = b"" if answer.raw else answer.header.to_bytes()
        body = answer.raw or answer.body
        prefix = transport.prefix(len(start) + len(body))
        deliver(self._client, body, self._settings.request_s, prefix + start)
