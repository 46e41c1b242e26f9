"""The listening socket: one thread for each connection, and limits on their number (``admission``).

It uses threads because a session mostly waits for two sockets, and because a defect then ends only one
session. The endpoint closes a refused connection at once, so that the client reports it and tries again
instead of waiting without an answer.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, Final

import structlog

from daemon.endpoint.admission import admit
from daemon.endpoint.protocol.peer import Peer, shut_down
from daemon.endpoint.protocol.request_budget import RequestBudget
from daemon.endpoint.session import Session
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.endpoint.metrics import EndpointMetrics
    from daemon.endpoint.responders import Responder
    from daemon.endpoint.settings import EndpointSettings


log = structlog.get_logger(__name__)

BACKLOG: Final = 1024
"""Connections that wait for acceptance. In a shorter queue, a storm of them would delay others by seconds,
until TCP repeats its first packet.
"""
SEND_BUFFER_BYTES: Final = 512 * 1024
RECEIVE_BUFFER_BYTES: Final = 128 * 1024
"""Buffers of the kernel for one client, which it doubles. Otherwise they grow to megabytes for each client
that does not read, and a container's limit of memory includes them."""
ACCEPT_PAUSE_S: Final = 0.2
"""Pause after a failed accept: usually the process is out of file descriptors, and accepting again would fail
at once."""


class EndpointServer:
    """Accepts clients until ``close``. Raises ConfigError if the address is unusable."""

    def __init__(
        self,
        settings: EndpointSettings,
        metrics: EndpointMetrics,
        make_responders: Callable[[], Sequence[Responder]] = tuple,
    ) -> None:
        """Listen; ``make_responders`` returns the additional responders of one connection."""
        self._settings = settings
        self._make_responders = make_responders
        self._metrics = metrics
        self._listener = _listen(settings.host, settings.port)
        self.port: int = self._listener.getsockname()[1]
        self._stopping = threading.Event()
        self._sessions: dict[Session, threading.Thread] = {}
        self._addresses: dict[Session, str] = {}
        """The address of each session, except those being closed for others."""
        self._budget = RequestBudget(settings.requests_bytes_max, metrics.given_up.inc)
        metrics.request_bytes.set_function(lambda: self._budget.used)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, name="endpoint", daemon=True)

    def start(self) -> None:
        """Start accepting clients."""
        self._thread.start()

    def close(self) -> int:
        """Stop accepting clients, wait up to ``drain_s`` for calls in progress, and close everything. Returns
        the number of interrupted calls.
        """
        self._stopping.set()
        shut_down(self._listener, socket.SHUT_RDWR)  # wakes the thread in accept
        self._thread.join()
        self._listener.close()
        deadline = time.monotonic() + self._settings.drain_s
        running = self._running()
        for session in running:
            session.finish()
        for thread in running.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        late = self._running()
        for session, thread in late.items():
            session.abort()
            thread.join(1.0)
        return len(late)

    def _running(self) -> dict[Session, threading.Thread]:
        with self._lock:
            return dict(self._sessions)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                handle, client = self._listener.accept()
            except OSError as error:
                if not self._stopping.is_set():
                    log.warning("a connection could not be accepted", problem=str(error))
                    self._stopping.wait(ACCEPT_PAUSE_S)
                continue
            self._begin(handle, str(client[0]))

    def _admit(self, address: str) -> bool:
        """Return whether to accept a client; close the connection that it displaces."""
        settings = self._settings
        with self._lock:
            admission = admit(
                address,
                self._addresses.items(),
                lambda session: session.waiting_since,
                connections_max=settings.connections_max,
                per_address_max=settings.connections_per_address_max,
            )
            if admission.closed is not None:
                del self._addresses[admission.closed]
        if admission.closed is not None:
            self._metrics.replaced.inc()
            admission.closed.abort()
        if admission.closed is not None or not admission.accepted:
            log.warning(
                "too many connections",
                address=address,
                limit=settings.connections_max,
                limit_per_address=settings.connections_per_address_max,
                refused=not admission.accepted,
            )
        return admission.accepted

    def _begin(self, handle: socket.socket, address: str) -> None:
        if not self._admit(address):
            self._metrics.refused.inc()
            handle.close()
            return
        try:
            peer = Peer(handle)
            session = Session(peer, self._settings, self._metrics, self._budget, self._make_responders())
        except OSError:  # the client has disconnected already
            handle.close()
            return
        thread = threading.Thread(target=self._run, args=(session,), name="endpoint-client", daemon=True)
        with self._lock:
            self._sessions[session] = thread
            self._addresses[session] = address
        self._metrics.connections.inc()
        try:
            thread.start()
        except RuntimeError as error:  # the system permits no further thread
            log.warning("a connection could not be served", problem=str(error))
            self._end(session)
            session.close()

    def _run(self, session: Session) -> None:
        try:
            session.run()
        except Exception:
            self._metrics.errors.labels("unexpected").inc()
            log.exception("a session failed unexpectedly")
        finally:
            self._end(session)

    def _end(self, session: Session) -> None:
        with self._lock:
            del self._sessions[session]
            self._addresses.pop(session, None)
        self._metrics.connections.dec()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            "the endpoint cannot listen on this address",
            listen=f"{host}:{port}",
            reason=str(error),
            hint="Choose another address with --listen.",
        ) from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    return listener
