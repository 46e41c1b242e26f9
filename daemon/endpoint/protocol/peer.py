"""One side of a session: a connected socket, with TLS or without, and its received but unread bytes.

Every wait has a time limit. A large answer consists of pieces, each with its own limit: a client that reads
slowly gets its answer, a client that does not read at all loses its connection. TCP probes find clients that
disappeared without closing their connection.

Most calls need three system calls here: waiting, receiving the request, and sending the answer. So sockets
stay in blocking mode, and most operations pass a flag not to wait. Only an operation that must wait sets a
time limit. TLS has no such flag and sets the limit each time.

Certificates and keys are files in PEM format. The endpoint reads them once, when it starts.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from pathlib import Path
from typing import Final

from state.errors import ConfigError


READ_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 256 * 1024
"""Bytes of an answer that a client must accept within one limit."""
COPIED_BYTES: Final = 16 * 1024
"""Shorter answers go out in one piece with their header; longer ones without a copy."""
PROBE_IDLE_S: Final = 60
PROBE_INTERVAL_S: Final = 15
PROBES: Final = 4
"""The endpoint notices a host that does not respond after two minutes; by default Linux would wait for two
hours.
"""
_NO_WAIT: Final = socket.MSG_DONTWAIT
_NOTHING_YET: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Disconnected(EOFError):
    """The other side closed the connection."""


class Peer:
    """A connected socket with its received but unread bytes. Use it from one thread only; ``shut_down`` is
    thread-safe.
    """

    def __init__(self, handle: socket.socket) -> None:
        self.handle = handle
        self.unread = b""
        self.blocked_since: float | None = None
        """The time since which a piece has waited for the other side (monotonic clock)."""
        self._readable = select.poll()  # not select.select, which fails for descriptors above 1,023
        self._readable.register(handle, select.POLLIN)
        handle.settimeout(None)
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_IDLE_S)
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_INTERVAL_S)
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)

    def accept_tls(self, context: ssl.SSLContext, timeout_s: float) -> None:
        """Perform the handshake as the server; raise OSError (``ssl.SSLError`` is a subclass)."""
        self._secure(context, timeout_s, server_side=True)

    def begin_tls(self, context: ssl.SSLContext, host: str, timeout_s: float) -> None:
        """Perform the handshake as a client of ``host``; raise OSError, including for a bad certificate."""
        self._secure(context, timeout_s, server_hostname=host)

    def _secure(self, context: ssl.SSLContext, timeout_s: float, **side: bool | str) -> None:
        wrapped = context.wrap_socket(self.handle, do_handshake_on_connect=False, **side)  # type: ignore[arg-type]
        self.handle = wrapped
        wrapped.settimeout(timeout_s)
        wrapped.do_handshake()

    def has_unread(self) -> bool:
        """Whether it holds received bytes that ``poll`` does not report."""
        return bool(self.unread) or (isinstance(self.handle, ssl.SSLSocket) and self.handle.pending() > 0)

    def receive(self, timeout_s: float) -> bytes:
        """Return received bytes; raise Disconnected at the end, TimeoutError."""
        if self.unread:
            chunk, self.unread = self.unread, b""
            return chunk
        if timeout_s <= 0:
            raise TimeoutError("timed out")
        if isinstance(self.handle, ssl.SSLSocket):
            self.handle.settimeout(timeout_s)
        elif not self._readable.poll(timeout_s * 1000):
            raise TimeoutError("timed out")
        chunk = self.handle.recv(READ_BYTES)
        if not chunk:
            raise Disconnected("the connection was closed")
        return chunk

    def receive_now(self) -> bytes:
        """Return the bytes that have arrived; empty if they were only TLS's own messages. Raises Disconnected
        at the end.
        """
        try:
            if isinstance(self.handle, ssl.SSLSocket):
                self.handle.settimeout(0)
                chunk = self.handle.recv(READ_BYTES)
            else:
                chunk = self.handle.recv(READ_BYTES, _NO_WAIT)
        except _NOTHING_YET:
            return b""
        if not chunk:
            raise Disconnected("the connection was closed")
        return chunk

    def send(self, data: bytes, timeout_s: float, start: bytes = b"") -> None:
        """Send ``start`` and all of ``data``. Raises OSError, and TimeoutError if the other side does not
        accept a piece in time.
        """
        if len(data) <= COPIED_BYTES:
            start, data = b"", start + data
        sent = 0 if isinstance(self.handle, ssl.SSLSocket) else self._send_now(start, data)
        if sent == len(start) + len(data):
            return
        self.handle.settimeout(timeout_s)
        try:
            self.blocked_since = time.monotonic()
            self.handle.sendall(start[sent:])
            rest = memoryview(data)[max(0, sent - len(start)) :]
            for at in range(0, len(rest), PIECE_BYTES):
                self.blocked_since = time.monotonic()
                self.handle.sendall(rest[at : at + PIECE_BYTES])
        finally:
            self.blocked_since = None
            self.handle.settimeout(None)

    def _send_now(self, start: bytes, data: bytes) -> int:
        """Send as many bytes as possible without waiting; return their number."""
        try:
            if start:
                return self.handle.sendmsg([start, data], [], _NO_WAIT)
            return self.handle.send(data, _NO_WAIT)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close the connection."""
        self.handle.close()


def remaining_s(deadline: float) -> float:
    """Return the seconds until a deadline of the monotonic clock."""
    return deadline - time.monotonic()


def shut_down(handle: socket.socket, how: int) -> None:
    """Shut a socket down; do nothing if it is closed. Thread-safe.

    Not ``SSLSocket.shutdown``: that would drop the encryption under the thread that is using it, which would
    then send its answer in clear.
    """
    try:
        socket.socket.shutdown(handle, how)
    except OSError:
        return


def server_context(
    certificate: Path | None, key: Path | None, client_ca: Path | None
) -> ssl.SSLContext | None:
    """Return the TLS context for clients; None without a certificate.

    Clients need a certificate signed by ``client_ca``, if that is given. Raises ConfigError.
    """
    if certificate is None:
        if key is not None or client_ca is not None:
            raise ConfigError("a key or an authority for clients requires --tls-certificate")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_refuse_encrypted_key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:
        raise _unusable(error, certificate, key, client_ca) from error
    return context


def client_context(ca: Path | None, *, enabled: bool) -> ssl.SSLContext | None:
    """Return the TLS context for the metastore, whose certificate must be signed by ``ca`` or an authority of
    the system.

    Always checks the host name in the certificate. Returns None without TLS. Raises ConfigError.
    """
    if ca is None and not enabled:
        return None
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ValueError) as error:
        raise _unusable(error, ca) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _refuse_encrypted_key() -> str:
    raise ValueError("the private key must not be encrypted")


def _unusable(error: Exception, *files: Path | None) -> ConfigError:
    return ConfigError(
        "the files for TLS cannot be used",
        files=[str(file) for file in files if file is not None],
        reason=str(error) or type(error).__name__,
        hint="Check that they are readable and in PEM format.",
    )
