"""The socket of a connection to a metastore: one deadline for each call, and a limit on the size of an answer."""

from __future__ import annotations

import socket
import ssl
import time
from typing import TYPE_CHECKING, Final

from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TTransportException


if TYPE_CHECKING:
    from collections.abc import Callable


_STREAM_FACTOR: Final = 16
"""An answer that is processed while it arrives may have so many times the limit."""


class DeadlineSocket(TSocket):  # type: ignore[misc]  # thrift has no types
    """Thrift's socket with one deadline for all reads and writes of a call, instead of a timeout for each of them."""

    def __init__(self, host: str, port: int, tls: Callable[[], ssl.SSLContext] | None, limit: int) -> None:
        super().__init__(host, port)
        self._tls = tls
        self._limit_once = limit
        self.limit = limit
        self.sent = False
        self.first_byte: int | None = None
        """The first byte that the server sent."""
        self.was_closed_unanswered = False
        """Whether the server closed the connection after a request, and never sent anything."""
        self._deadline = 0.0
        self._silence_s: float | None = None
        self._received = 0

    @property
    def over_limit(self) -> bool:
        """Whether the answer was cut off because of its size."""
        return self._received > self.limit

    def begin(self, deadline: float, *, streams: bool = False) -> None:
        """Start a call. For one that ``streams`` the limit is higher, and the deadline moves with every byte that arrives."""
        self._deadline = deadline
        self._silence_s = deadline - time.monotonic() if streams else None
        self.limit = self._limit_once * (_STREAM_FACTOR if streams else 1)
        self._received = 0
        self.sent = False

    def open(self) -> None:
        """Connect without the messages that Thrift logs for every refused connection."""
        try:
            self.handle = socket.create_connection((self.host, self.port), timeout=self._remaining())
            self.handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._tls is not None:
                self.handle = self._tls().wrap_socket(
                    self.handle, server_hostname=self.host, do_handshake_on_connect=False
                )
                self.handle.settimeout(self._remaining())
                self.handle.do_handshake()
        except OSError as error:  # ssl.SSLError is one
            raise TTransportException(TTransportException.NOT_OPEN, str(error)) from error

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        """Whether the server still holds the connection; called between calls only.

        Thrift's own method looks at the next byte, which TLS does not permit. Between calls only messages of TLS itself arrive, and reading
        processes them.
        """
        if not isinstance(self.handle, ssl.SSLSocket):
            return bool(super().isOpen())
        self.handle.settimeout(0)
        try:
            self.handle.recv(1)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        except OSError:
            return False
        return False

    def read(self, size: int) -> bytes:
        """Read the available bytes, at most ``size``."""
        self._arm()
        try:
            chunk: bytes = super().read(size)
        except TTransportException as error:
            is_end = error.type == TTransportException.END_OF_FILE
            self.was_closed_unanswered = is_end and self.sent and self.first_byte is None
            raise
        if self.first_byte is None and chunk:
            self.first_byte = chunk[0]
        self._received += len(chunk)
        if self.over_limit:
            raise TTransportException(TTransportException.SIZE_LIMIT, "answer too large")
        if chunk and self._silence_s is not None:
            self._deadline = max(self._deadline, time.monotonic() + self._silence_s)
        return chunk

    def write(self, data: bytes) -> None:
        """Write all of ``data``, which is one whole request because the transport above buffers."""
        self._arm()
        super().write(data)
        self.sent = True

    def _arm(self) -> None:
        if self.handle is None:
            raise TTransportException(TTransportException.NOT_OPEN, "not connected")
        self.handle.settimeout(self._remaining())

    def _remaining(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TTransportException(TTransportException.TIMED_OUT, "the deadline has passed")
        return remaining
