"""Connections to the metastore: one for each client, because the server keeps state for each connection, and
one for the endpoint's own queries.

A client's connection carries the client's login. For its own queries, the endpoint logs in itself if the
metastore requires SASL.

The endpoint sends complete requests, so the metastore never sees half of one. It passes on a forwarded answer
as it arrives.
"""

from __future__ import annotations

import socket
import time
from itertools import chain
from typing import TYPE_CHECKING, Final

import structlog

from daemon.endpoint.protocol.peer import Disconnected, Peer, remaining_s
from daemon.endpoint.protocol.streams import Incoming, Transport
from daemon.endpoint.protocol.wire import is_struct, read_message
from handlers.metastore.connection import system_tls
from handlers.metastore.login.mechanisms import authenticate
from state.errors import AmbiguousCall, BadInput, ConfigError, LoginFailed, MetastoreUnavailable


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.endpoint.protocol.wire import Message
    from daemon.endpoint.settings import EndpointSettings
    from handlers.metastore.addresses import Address, Login


log = structlog.get_logger(__name__)

WILDCARDS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - addresses are compared with them


class ClientGone(Exception):
    """The client closed its connection, or did not read its answer in time."""


class Upstream:
    """The session's connection to the metastore."""

    def __init__(self, settings: EndpointSettings, transport: Transport) -> None:
        self._settings = settings
        self._transport = transport
        self.address, self.peer = connect(settings)

    @classmethod
    def of_endpoint(cls, settings: EndpointSettings) -> Upstream:
        """Connect for the endpoint's own queries, and log in if the metastore requires it.

        Raises MetastoreUnavailable.
        """
        if settings.login is None:
            return cls(settings, Transport.BUFFERED)
        upstream = cls(settings, Transport.FRAMED)
        try:
            log_in(upstream.peer, settings.login, upstream.address, settings.request_s)
        except BaseException:
            upstream.peer.close()
            raise
        return upstream

    def send(self, request: Message) -> None:
        """Send a request; raise AmbiguousCall."""
        try:
            self.peer.send(self._transport.wrap(request.to_bytes()), self._settings.request_s)
        except OSError as error:
            raise self._lost(request, error) from error

    def exchange(self, request: Message) -> Message:
        """Send a request and return its complete answer; raise AmbiguousCall, BadInput, LimitExceeded."""
        self.send(request)
        return self.receive_answer(request)

    def receive_answer(self, request: Message, is_body: Callable[[bytes], bool] = is_struct) -> Message:
        """Return the complete answer to a request sent; raise AmbiguousCall, BadInput, LimitExceeded.

        ``is_body`` decides whether the first bytes are complete, for answers of a known form.
        """
        first = self._receive(request)
        answer = read_message(first, is_body) if self._transport is Transport.BUFFERED else None
        if answer is not None:
            return answer
        pieces = chain([first], iter(lambda: self._receive(request), None))
        incoming = Incoming(lambda: next(pieces), self._transport, self._settings.answer_bytes_max)
        answer = incoming.message(incoming.read_to_end())
        _check_end(incoming, request)
        return answer

    def forward(self, request: Message, client: Peer) -> None:
        """Send a request and pass its answer on as it arrives.

        Raises AmbiguousCall, BadInput or ClientGone.
        """
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


def connect(settings: EndpointSettings) -> tuple[Address, Peer]:
    """Connect to the first server that accepts, with TLS if set; raise MetastoreUnavailable."""
    reasons = []
    for address in settings.metastores:
        try:
            return address, _connect(address, settings)
        except OSError as error:
            reasons.append(f"{address}: {error}")
    raise MetastoreUnavailable("the metastore cannot be reached", reasons=reasons)


def _connect(address: Address, settings: EndpointSettings) -> Peer:
    peer = Peer(socket.create_connection((address.host, address.port), settings.connect_s))
    context = settings.metastore_tls or (system_tls() if address.tls else None)
    if context is not None:
        try:
            peer.begin_tls(context, address.host, settings.connect_s)
        except OSError:
            peer.close()
            raise
    return peer


def refuse_own_address(settings: EndpointSettings) -> None:
    """Raise ConfigError if a metastore's address is the endpoint's own, which would then forward calls to
    itself.

    The mistake is likely, because both have the same port by default. A name in front of the endpoint, such
    as a Kubernetes service, goes unnoticed.
    """
    for address in settings.metastores:
        if address.port == settings.port and _resolve(address.host) & _listens_on(settings.host):
            raise ConfigError(
                "the metastore's address is the endpoint's own",
                metastore=str(address),
                listen=f"{settings.host}:{settings.port}",
                hint="Give the endpoint another address with --listen, or correct --metastore.",
            )


def _listens_on(host: str) -> set[str]:
    addresses = _resolve(host)
    return (
        addresses | _resolve("localhost") | _resolve(socket.gethostname())
        if addresses & WILDCARDS
        else addresses
    )


def _resolve(host: str) -> set[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:  # an unknown name, which a connection reports
        return set()


def check_metastore(settings: EndpointSettings) -> bool:
    """Connect once and log a warning if that fails. The endpoint serves in any case, because the metastore
    may start later.
    """
    try:
        connect(settings)[1].close()
    except MetastoreUnavailable as error:
        log.warning(
            "the metastore cannot be reached; until it can, every call returns an exception",
            reasons=error.context["reasons"],
        )
        return False
    return True


def deliver(client: Peer, data: bytes, timeout_s: float, start: bytes = b"") -> None:
    """Send ``start`` and ``data`` to the client; raise ClientGone."""
    try:
        client.send(data, timeout_s, start)
    except OSError as error:
        raise ClientGone(str(error)) from error


class PeerChannel:
    """Gives the SASL negotiation access to a connection (``frames.LimitedChannel``)."""

    def __init__(self, peer: Peer, timeout_s: float) -> None:
        self._peer = peer
        self._deadline = time.monotonic() + timeout_s
        self.limit = 0

    def read(self, size: int) -> bytes:
        """Read the available bytes, at most ``size``; the rest stays with the peer."""
        received = self._peer.receive(remaining_s(self._deadline))
        self._peer.unread = received[size:]
        return received[:size]

    def write(self, data: bytes) -> None:
        """Write all of ``data``."""
        self._peer.send(data, remaining_s(self._deadline))


def log_in(peer: Peer, login: Login, address: Address, timeout_s: float) -> None:
    """Log in on a new connection; raise LoginFailed, MetastoreUnavailable."""
    try:
        frames = authenticate(PeerChannel(peer, timeout_s), login, address.host)
    except (OSError, Disconnected) as error:
        raise MetastoreUnavailable(
            "the connection broke during the login", address=str(address), reason=str(error)
        ) from error
    if frames.is_protected:
        raise LoginFailed(
            "the endpoint cannot sign or encrypt its own queries",
            address=str(address),
            hint="The endpoint forwards the calls of such a metastore's clients unread, so it does not need "
            "an index. Add 'authentication' to the metastore's hadoop.rpc.protection, and use TLS for "
            "encryption.",
        )
