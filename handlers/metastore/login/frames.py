"""Frames after a SASL login: each message follows its length, signed or encrypted if the sides agreed on that."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Protocol

from thrift.transport.TTransport import TTransportBase, TTransportException

from handlers.metastore.login.negotiation import Channel
from state.errors import LoginFailed


if TYPE_CHECKING:
    from collections.abc import Callable

    from handlers.metastore.login.negotiation import MessageProtection


_LENGTH: Final = struct.Struct(">i")


class LimitedChannel(Channel, Protocol):
    """A connection with a limit on the size of an answer."""

    limit: int


class Frames(TTransportBase):  # type: ignore[misc]  # thrift has no types
    """Thrift's transport between the protocol's buffer and the socket. The buffer above writes one whole request at a time."""

    def __init__(self, channel: LimitedChannel, protection: MessageProtection | None) -> None:
        self._channel = channel
        self._protection = protection
        self._remaining = 0
        """Bytes of the current frame that were not read from the channel."""
        self._message = memoryview(b"")
        """What was not read of a frame that is processed as a whole."""

    @property
    def is_protected(self) -> bool:
        """Whether messages are signed or encrypted."""
        return self._protection is not None

    def write(self, data: bytes) -> None:
        """Write one frame."""
        payload = data if self._protection is None else self._protect(self._protection.wrap, data)
        self._channel.write(_LENGTH.pack(len(payload)) + payload)

    def flush(self) -> None:
        """Nothing: ``write`` does not buffer."""

    def read(self, size: int) -> bytes:
        """Read the available bytes, at most ``size``."""
        return self._read_plain(size) if self._protection is None else self._read_protected(size)

    def _read_plain(self, size: int) -> bytes:
        while self._remaining == 0:
            self._remaining = self._read_length()
        chunk = self._channel.read(min(size, self._remaining))
        self._remaining -= len(chunk)
        return chunk

    def _read_protected(self, size: int) -> bytes:
        assert self._protection is not None
        while not self._message:
            token = self._read_exactly(self._read_length())
            self._message = memoryview(self._protect(self._protection.unwrap, token))
        chunk, self._message = bytes(self._message[:size]), self._message[size:]
        return chunk

    @staticmethod
    def _protect(function: Callable[[bytes], bytes], data: bytes) -> bytes:
        """Call ``wrap`` or ``unwrap``; a failure breaks the connection, because the tokens that follow depend on this one."""
        try:
            return function(data)
        except LoginFailed as error:
            raise TTransportException(TTransportException.UNKNOWN, str(error)) from error

    def _read_length(self) -> int:
        (length,) = _LENGTH.unpack(self._read_exactly(_LENGTH.size))
        if length < 0:
            raise TTransportException(TTransportException.UNKNOWN, "not a frame of SASL")
        if self._protection is not None and length > self._channel.limit:
            raise TTransportException(TTransportException.SIZE_LIMIT, "answer too large")
        return int(length)

    def _read_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            data += self._channel.read(size - len(data))
        return bytes(data)
