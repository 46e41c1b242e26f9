"""SASL as Thrift uses it: the negotiation before the first call, and the frames of all messages after it.

A message of the negotiation is a status byte and a four-byte length in front of its content. The client names
its mechanism and sends its first response. Then the sides take turns until the server sends COMPLETE. From
then on, each message follows its length (``Frames``), signed or encrypted if the sides agreed on that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Final, Protocol

from thrift.transport.TTransport import TTransportBase, TTransportException

from handlers.metastore.addresses import Protection
from state.errors import LoginFailed


MESSAGE_BYTES_MAX: Final = 1 << 20
"""Tickets with many groups have some 64 KiB; a longer message does not come from a metastore."""
_TURNS_MAX: Final = 16
_HEADER: Final = struct.Struct(">BI")
_LENGTH: Final = struct.Struct(">i")
_TEXT_CHARS_MAX: Final = 1000


class Status(IntEnum):
    """The first byte of a message."""

    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


class Channel(Protocol):
    """The connection below; its methods raise Thrift's errors."""

    def read(self, size: int) -> bytes:
        """Read the available bytes, at most ``size``, and at least one."""

    def write(self, data: bytes) -> None:
        """Write all of ``data``."""


class LimitedChannel(Channel, Protocol):
    """A connection with a limit on the size of an answer."""

    limit: int


class MessageProtection(Protocol):
    """Signing or encryption of the messages after the login."""

    def wrap(self, message: bytes) -> bytes:
        """Return the token for a message; raise LoginFailed."""

    def unwrap(self, token: bytes) -> bytes:
        """Return the message of a token; raise LoginFailed if it was changed on its way."""


class Mechanism(Protocol):
    """One side of a login; ``negotiate`` drives it."""

    @property
    def name(self) -> str:
        """The registered name of the mechanism."""

    @property
    def hint(self) -> str:
        """Checks to make if the server refuses the login."""

    def respond(self, challenge: bytes) -> bytes:
        """Return the response; the first challenge is empty. Raises LoginFailed."""

    @property
    def is_complete(self) -> bool:
        """Whether this side expects no further challenge."""

    @property
    def protection(self) -> tuple[Protection, MessageProtection | None]:
        """The negotiated protection of messages after the login."""


def negotiate(channel: Channel, mechanism: Mechanism) -> None:
    """Log in; raise LoginFailed, or the channel's error."""
    _send(channel, Status.START, mechanism.name.encode())
    _send_response(channel, mechanism, b"")
    for _ in range(_TURNS_MAX):
        status, challenge = _receive(channel, mechanism)
        if status is Status.COMPLETE:
            _finish(mechanism, challenge)
            return
        if mechanism.is_complete:
            raise LoginFailed("the metastore continues a completed login", mechanism=mechanism.name)
        _send_response(channel, mechanism, challenge)
    raise LoginFailed("the metastore does not complete the login", mechanism=mechanism.name)


def _send_response(channel: Channel, mechanism: Mechanism, challenge: bytes) -> None:
    response = mechanism.respond(challenge)
    _send(channel, Status.COMPLETE if mechanism.is_complete else Status.OK, response)


def _finish(mechanism: Mechanism, challenge: bytes) -> None:
    """Process the data that the server sent together with its acceptance: in some mechanisms, a proof of its
    identity.
    """
    if not mechanism.is_complete:
        mechanism.respond(challenge)
    if not mechanism.is_complete:
        raise LoginFailed(
            "the metastore accepted the login without proving its identity", mechanism=mechanism.name
        )


def _send(channel: Channel, status: Status, payload: bytes) -> None:
    channel.write(_HEADER.pack(status, len(payload)) + payload)


def _receive(channel: Channel, mechanism: Mechanism) -> tuple[Status, bytes]:
    number, size = _HEADER.unpack(_read_exactly(channel, _HEADER.size))
    if number not in {Status.OK, Status.BAD, Status.ERROR, Status.COMPLETE} or size > MESSAGE_BYTES_MAX:
        raise LoginFailed(
            "the server does not answer with SASL",
            mechanism=mechanism.name,
            hint="Check that the metastore requires SASL; remove 'auth' if it does not.",
        )
    payload = _read_exactly(channel, size)
    if number in {Status.BAD, Status.ERROR}:
        reason = payload.decode(errors="replace")[:_TEXT_CHARS_MAX]
        raise LoginFailed(
            "the metastore refused the login", mechanism=mechanism.name, reason=reason, hint=mechanism.hint
        )
    return Status(number), payload


def _read_exactly(channel: Channel, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        data += channel.read(size - len(data))
    return bytes(data)


class Frames(TTransportBase):  # type: ignore[misc]  # thrift has no types
    """Thrift's transport between the protocol's buffer and the socket.
    The buffer above writes one whole request at a time.
    """

    def __init__(self, channel: LimitedChannel, protection: MessageProtection | None) -> None:
        self._channel = channel
        self._protection = protection
        self._remaining = 0
        """Unread bytes of the current frame."""
        self._message = memoryview(b"")
        """The unread rest of a frame processed as a whole."""

    @property
    def is_protected(self) -> bool:
        """Whether messages have signatures or encryption."""
        return self._protection is not None

    def write(self, data: bytes) -> None:
        """Write one frame."""
        payload = data if self._protection is None else self._protect(self._protection.wrap, data)
        self._channel.write(_LENGTH.pack(len(payload)) + payload)

    def flush(self) -> None:
        """Nothing: ``write`` does not buffer."""

    def read(self, size: int) -> bytes:
        """Read the available bytes, at most ``size``."""
        if self._protection is not None:
            return self._read_protected(size, self._protection)
        while self._remaining == 0:
            self._remaining = self._read_length()
        chunk = self._channel.read(min(size, self._remaining))
        self._remaining -= len(chunk)
        return chunk

    def _read_protected(self, size: int, protection: MessageProtection) -> bytes:
        while not self._message:
            token = _read_exactly(self._channel, self._read_length())
            self._message = memoryview(self._protect(protection.unwrap, token))
        chunk, self._message = bytes(self._message[:size]), self._message[size:]
        return chunk

    @staticmethod
    def _protect(function: Callable[[bytes], bytes], data: bytes) -> bytes:
        """Call ``wrap`` or ``unwrap``;
        a failure breaks the connection, because the tokens that follow depend on this one.
        """
        try:
            return function(data)
        except LoginFailed as error:
            raise TTransportException(TTransportException.UNKNOWN, str(error)) from error

    def _read_length(self) -> int:
        (length,) = _LENGTH.unpack(_read_exactly(self._channel, _LENGTH.size))
        if length < 0:
            raise TTransportException(TTransportException.UNKNOWN, "not a SASL frame")
        if self._protection is not None and length > self._channel.limit:
            raise TTransportException(TTransportException.SIZE_LIMIT, "answer too large")
        return int(length)
