"""Finds where each message on a connection ends, for both transports.

A framed message states its length. A buffered one ends with its struct, so the endpoint skips the struct as
its bytes arrive: Thrift's C extension does that, and requests more bytes. The endpoint passes bytes on
immediately. So a large answer reaches the client while the metastore still sends it, and is never in memory
as a whole.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from io import BytesIO
from typing import Final

from thrift.transport.TTransport import CReadableTransport, TTransportBase

from daemon.endpoint.protocol.peer import READ_BYTES, Disconnected, Peer
from daemon.endpoint.protocol.request_budget import RequestAccount
from daemon.endpoint.protocol.wire import (
    BYTES_MAX,
    MALFORMED,
    VERSION_1,
    Header,
    Message,
    is_struct,
    read_header,
    read_message,
    skip_struct,
)
from state.errors import BadInput, LimitExceeded


DETECTION_BYTES: Final = 5
_KNOWN_MAX: Final = 512
_KNOWN_BYTES_MAX: Final = 4096
"""Total size of cached structs that are known to be complete, because clients repeat their calls."""


class Transport(Enum):
    """How to delimite messages."""

    BUFFERED = "buffered"
    FRAMED = "framed"

    def prefix(self, size: int) -> bytes:
        """Return the bytes before a message of this size."""
        return b"" if self is Transport.BUFFERED else struct.pack(">I", size)

    def wrap(self, message: bytes) -> bytes:
        """Return the bytes of a message."""
        return self.prefix(len(message)) + message


def detect_transport(start: bytes) -> Transport:
    """Return the transport that a client uses, from its first five bytes.

    Raises BadInput for another protocol. A buffered message starts with a version, or with the length of a
    name and its first letter. A frame starts with its own length, and then with a version or the length of a
    name, whose first byte is 0.
    """
    (first,) = struct.unpack(">I", start[:4])
    if first >> 16 == VERSION_1 >> 16:
        return Transport.BUFFERED
    if start[4] == VERSION_1 >> 24 or (start[4] == 0 and first <= BYTES_MAX):
        return Transport.FRAMED
    if chr(start[4]).isalpha() and first >> 16 == 0:
        return Transport.BUFFERED
    raise BadInput("the client does not speak Thrift's binary protocol", first_bytes=start.hex())


class Incoming(TTransportBase, CReadableTransport):  # type: ignore[misc]  # thrift has no types
    """One message being received."""

    def __init__(
        self,
        receive: Callable[[], bytes],
        transport: Transport,
        bytes_max: int = BYTES_MAX,
        sink: Callable[[bytes], None] | None = None,
    ) -> None:
        self._receive = receive
        self._transport = transport
        self._bytes_max = bytes_max
        self._sink = sink
        self._buffer = BytesIO()
        self._before_buffer = 0
        self._received = bytearray()

    @property
    def cstringio_buf(self) -> BytesIO:
        """The buffer that Thrift's extension reads."""
        return self._buffer

    def cstringio_refill(self, partial: bytes, size: int) -> BytesIO:
        """Return a buffer that begins with ``partial`` and has at least ``size`` bytes."""
        self._before_buffer += self._buffer.tell() - len(partial)
        if self._before_buffer + size > self._bytes_max:
            raise LimitExceeded("the message is too large", limit=self._bytes_max)
        self._buffer = BytesIO()
        self._buffer = BytesIO(self._refill(partial, size - len(partial)))
        return self._buffer

    def _refill(self, partial: bytes, missing: int) -> bytes:
        """Return ``partial`` and at least ``missing`` further bytes."""
        if self._sink is not None:
            chunks = [partial]
            while missing > 0:
                chunk = self._receive()
                self._sink(chunk)
                chunks.append(chunk)
                missing -= len(chunk)
            return b"".join(chunks)
        end = len(self._received) + missing
        start = len(self._received) - len(partial)
        while len(self._received) < end:
            self._received += self._receive()  # once only: requests may be large
        with memoryview(self._received) as received:
            return bytes(received[start:])

    def read(self, size: int) -> bytes:
        """Return exactly ``size`` bytes."""
        data = self._buffer.read(size)
        return data if len(data) == size else self.cstringio_refill(data, size).read(size)

    def read_to_end(self) -> Header:
        """Read the message to its end and return its header. Raises BadInput, LimitExceeded, and the errors
        of receiving.
        """
        if self._transport is Transport.FRAMED:
            return self._read_frame()
        header = read_header(self.read)
        try:
            skip_struct(self)
        except Disconnected:
            raise
        except MALFORMED as error:
            raise BadInput("the message is not valid Thrift", call=header.name, reason=str(error)) from error
        return header

    def _read_frame(self) -> Header:
        (size,) = struct.unpack(">I", self.read(4))
        if size + 4 > self._bytes_max:
            raise LimitExceeded("the message is too large", bytes=size, limit=self._bytes_max)
        left = size

        def read(count: int) -> bytes:
            nonlocal left
            left -= count
            if left < 0:
                raise BadInput("the frame is shorter than its message", bytes=size)
            return self.read(count)

        header = read_header(read)
        while left:
            read(min(left, READ_BYTES))
        return header

    def unread(self) -> bytes:
        """Return the received bytes that follow the message."""
        return self._buffer.read()

    def message(self, header: Header) -> Message:
        """Return the message, after ``read_to_end`` without a sink."""
        start = 4 if self._transport is Transport.FRAMED else 0
        end = self._before_buffer + self._buffer.tell()
        self._buffer = BytesIO(self.unread())  # no second copy of a large request
        with memoryview(self._received) as received:
            raw = bytes(received[start:end])
        self._received = bytearray()
        return Message(header, raw[len(header.to_bytes()) :], raw)


def receive_request(
    peer: Peer,
    transport: Transport,
    *,
    bytes_max: int,
    complete_s: float,
    account: RequestAccount | None = None,
) -> Message:
    """Return the next request, counted by ``account``; later bytes stay with ``peer``."""
    message = read_whole(peer.unread, transport, bytes_max)
    if message is not None:
        peer.unread = b""
        return message
    deadline = time.monotonic() + complete_s

    def receive() -> bytes:
        chunk = peer.receive(deadline - time.monotonic())
        if account is not None:
            account.grow(len(chunk))
        return chunk

    incoming = Incoming(receive, transport, bytes_max)
    message = incoming.message(incoming.read_to_end())
    peer.unread = incoming.unread() + peer.unread
    return message


def read_whole(data: bytes, transport: Transport, bytes_max: int) -> Message | None:
    """Return the message in ``data``; None if it is not exactly one complete message. Most messages arrive in
    one piece.
    """
    if len(data) > bytes_max:
        return None
    if transport is Transport.BUFFERED:
        return read_message(data, _is_known_struct)
    return read_message(data[4:], lambda _: True) if int.from_bytes(data[:4]) == len(data) - 4 else None


def _is_known_struct(data: bytes) -> bool:
    return _keep_struct(data) if len(data) <= _KNOWN_BYTES_MAX else is_struct(data)


_keep_struct: Final = lru_cache(maxsize=_KNOWN_MAX)(is_struct)
