"""The HTTP server: its thread, its socket, and its connections within limits.

The caller binds the socket, before any thread starts, and so learns of a port in use, and of the real port if
the setting is 0. The server accepts connections itself, instead of asyncio's own server, so that limits hold
from the first moment, even for a client that never finishes the TLS handshake.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog
import uvicorn

from daemon.http.transport.answering import RETRY_AFTER_S, Answering
from daemon.http.transport.connections import Connections
from daemon.http.transport.fair_queue import FairQueue
from daemon.http.transport.limits import HEAD_BYTES_MAX, Limits
from daemon.http.transport.protocol import LimitedProtocol
from daemon.process.descriptors import is_reserved
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from daemon.http.transport.connections import Connection
    from daemon.http.transport.tls import ServerTls


log = structlog.get_logger(__name__)
STOP_S: Final = 2.0
SWEEP_S: Final = 0.5
BACKLOG: Final = 1024
"""Connections that wait for acceptance. In a shorter queue, a storm of them would delay others by a second or
more, until TCP repeats its first packet.
"""
SEND_BUFFER_BYTES: Final = 128 * 1024
RECEIVE_BUFFER_BYTES: Final = 64 * 1024
"""Buffers of the kernel for one connection, which it doubles. Otherwise they grow to megabytes for a client
that does not read, and a container's limit of memory includes them."""
ADMITTED_AT_ONCE: Final = 4
"""Connections to admit before reading requests. Each costs up to a millisecond of a busy process, because it
takes several system calls, after which Python waits for its other threads.
"""
_ACCEPT_RETRY_S: Final = 0.5
_REFUSAL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: %d\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    % RETRY_AFTER_S
)


def _count_nothing(_reason: str) -> None:
    pass


class HttpServer:
    """Serves ``app`` on a socket until closed."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        *,
        limits: Limits | None = None,
        tls: ServerTls | None = None,
        refused: Callable[[str], None] = _count_nothing,
        name: str = "http",
    ) -> None:
        """``listener`` is a bound socket (``bind``), ``refused`` counts refusals, by reason."""
        limits = limits or Limits()
        self._socket = listener
        self.host, self.port = listener.getsockname()[:2]
        self.answering = Answering(limits, refused, f"{name}-answer")
        config = uvicorn.Config(
            app,
            access_log=False,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
            http="h11",
            lifespan="off",
            log_config=None,  # records go to the logs of the process
            loop="asyncio",
            proxy_headers=False,  # a client on this machine could name any other as the one who acts
            server_header=False,
            timeout_graceful_shutdown=1,
            timeout_keep_alive=5,
            ws="none",
        )
        self._server = _Server(
            config, self._socket, tls, Connections(limits, refused), {"answering": self.answering}, refused
        )
        self._thread = threading.Thread(target=self._server.run, name=name, daemon=True)

    @property
    def address(self) -> str:
        """The address at which this machine reaches the server, as ``host:port``."""
        return name_address(reachable(self.host), self.port)

    def start(self) -> None:
        """Start the server."""
        self._thread.start()

    def close(self) -> None:
        """Stop the server, within ``STOP_S``."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
            self.answering.close()
        self._socket.close()


class _Server(uvicorn.Server):
    """uvicorn's server, which accepts connections itself."""

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        tls: ServerTls | None,
        connections: Connections,
        state: dict[str, Any],
        refused: Callable[[str], None],
    ) -> None:
        """``state`` becomes the ``request.state`` of each request."""
        super().__init__(config)
        self.servers = []
        self._listener = listener
        self._tls = tls
        self._connections = connections
        self._state = state
        self._refused = refused
        self._background: set[asyncio.Task[None]] = set()
        self._handshaking: set[socket.socket] = set()
        """Accepted sockets that no transport has taken over yet."""
        self._arrivals: FairQueue[tuple[socket.socket, str]] = FairQueue()
        """Accepted sockets, with their addresses, before their admission."""
        self._arrived = 0
        self._is_listening = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        del sockets
        await self.lifespan.startup()
        self._listener.setblocking(False)
        self._listen()
        self._spawn(self._sweep())
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no further connections, and end the current ones."""
        self._is_listening = False
        asyncio.get_running_loop().remove_reader(self._listener)
        await super().shutdown(sockets)
        self._connections.close()
        for task in self._background:
            task.cancel()
        self._arrived = 0
        self._arrivals.close()
        for accepted in (*self._handshaking, *(arrival for arrival, _ in iter(self._arrivals.take, None))):
            accepted.close()

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _listen(self) -> None:
        if self._is_listening:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Accept waiting connections, which costs little, so that ``_admit_some`` knows all of them."""
        for _ in range(BACKLOG - self._arrived):
            try:
                accepted, address = self._listener.accept()
            except BlockingIOError:
                break
            except ConnectionError:  # the client has left again
                continue
            except OSError as error:  # out of descriptors
                log.warning("cannot accept an HTTP connection", problem=str(error))
                loop = asyncio.get_running_loop()
                loop.remove_reader(self._listener)
                loop.call_later(_ACCEPT_RETRY_S, self._listen)
                break
            if is_reserved(accepted.fileno()):
                self._refused("descriptors")
                _refuse(accepted, plain=self._tls is None)
                continue
            self._arrivals.put(address[0], (accepted, address[0]))
            self._arrived += 1
            if self._arrived == 1:
                asyncio.get_running_loop().call_soon(self._admit_some)

    def _admit_some(self) -> None:
        """Admit some of the accepted connections, of each address in turn.

        To establish a thousand connections takes half a second; the request of another address does not wait
        for it. The server reads requests that have arrived before it admits the next connections, which could
        displace them.
        """
        for _ in range(min(self._arrived, ADMITTED_AT_ONCE)):
            arrival = self._arrivals.take()
            assert arrival is not None
            self._arrived -= 1
            self._admit(*arrival)
        if self._arrived:
            asyncio.get_running_loop().call_soon(self._admit_some)

    def _admit(self, accepted: socket.socket, address: str) -> None:
        accepted.setblocking(False)
        connection = self._connections.admit(address, partial(_abort, accepted))
        if connection is None:
            _refuse(accepted, plain=self._tls is None)
            return
        self._handshaking.add(accepted)
        self._spawn(self._establish(accepted, connection))

    async def _establish(self, accepted: socket.socket, connection: Connection) -> None:
        ended = partial(self._connections.end, connection)

        def protocol() -> LimitedProtocol:
            return LimitedProtocol(
                self.config, self.server_state, self._state, connection, self._connections.clock, ended
            )

        options: dict[str, Any] = {}
        if self._tls is not None:
            limits = self._connections.limits
            options = {
                "ssl": self._tls.context,
                "ssl_handshake_timeout": limits.head_s,
                "ssl_shutdown_timeout": limits.unread_s,
            }
        try:
            await asyncio.get_running_loop().connect_accepted_socket(protocol, accepted, **options)
        except OSError:  # the handshake failed or took too long
            self._refused("tls")
            accepted.close()
            ended()
        self._handshaking.discard(accepted)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self._connections.sweep()
            if self._tls is not None:
                self._tls.refresh()


def _refuse(accepted: socket.socket, *, plain: bool) -> None:
    """Close a connection without admission, with an answer if that needs no handshake."""
    with contextlib.suppress(OSError), accepted:
        if plain:
            accepted.send(_REFUSAL)


def _abort(accepted: socket.socket) -> None:
    """End a connection during its TLS handshake; the handshake then fails, and closes the socket."""
    with contextlib.suppress(OSError):
        accepted.shutdown(socket.SHUT_RDWR)


def bind(host: str, port: int, key: str = "http.port") -> socket.socket:
    """Return a socket that listens; raise ConfigError with the setting ``key`` if the address is unusable."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY: otherwise the body of an answer waits 40 ms for the
    # acknowledgement of its headers.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        bound.close()
        raise ConfigError(
            "the HTTP address cannot be used",
            hint=f"Set {key} to a free port (0 selects one), or its host to an address of this machine.",
            key=key,
            value=f"{host}:{port}",
            reason=getattr(error, "strerror", None) or str(error),
        ) from error
    return bound


def name_address(host: str, port: int) -> str:
    """Return an address as ``host:port``, of IPv6 with brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reachable(host: str) -> str:
    """Return the address at which this machine reaches a server that listens on ``host``."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
