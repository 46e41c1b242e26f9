"""A client that sends the bytes of a call and reads the whole answer without decoding it."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from typing import Final, Self

from thrift.Thrift import TMessageType, TType

from daemon.endpoint.protocol.peer import Peer
from daemon.endpoint.protocol.streams import Transport, receive_request
from daemon.endpoint.protocol.wire import Header, Message, Value, struct_value, text_value, write_struct


TIMEOUT_S: Final = 600.0


NO_LIMIT: Final = Value(TType.I16, b"\xff\xff")


def list_value(texts: Iterable[str]) -> Value:
    """Return a list of texts."""
    elements = [text_value(text).data for text in texts]
    return Value(TType.LIST, struct.pack(">bi", TType.STRING, len(elements)) + b"".join(elements))


DAY_EXPRESSION: Final = bytes.fromhex(
    "01006f72672e6170616368652e6861646f6f702e686976652e716c2e706c616e2e457870724e6f646547656e65726963"
    "46756e63446573e30101016a6176612e7574696c2e41727261794c6973f4010301026f72672e6170616368652e686164"
    "6f6f702e686976652e716c2e706c616e2e457870724e6f6465436f6c756d6e446573e3010164f3010001827401036f72"
    "672e6170616368652e6861646f6f702e686976652e7365726465322e74797065696e666f2e5072696d69746976655479"
    "7065496e66ef0101737472696ee701046f72672e6170616368652e6861646f6f702e686976652e716c2e706c616e2e45"
    "7870724e6f6465436f6e7374616e74446573e3010103070301323032302d30312d30b301056f72672e6170616368652e"
    "6861646f6f702e686976652e716c2e7564662e67656e657269632e47656e657269635544464f5045717561ec01000001"
    "823d0145515541cc01066f72672e6170616368652e6861646f6f702e696f2e426f6f6c65616e5772697461626ce50100"
    "0001030101626f6f6c6561ee"
)
"""``ds = '2020-01-03'`` as the compiler of Hive 4.2 sends it."""


DAY: Final = "2020-01-03"


def _encode_day(day: str) -> bytes:
    """Return a text in Kryo's form, in which the last letter is marked."""
    return day[:-1].encode() + bytes([ord(day[-1]) | 0x80])


def encode_call(name: str, *arguments: Value) -> bytes:
    """Return a request whose arguments are numbered from 1."""
    return Header(name, TMessageType.CALL, 1).to_bytes() + write_struct(enumerate(arguments, 1))


def by_filter(db: str, table: str, text: str) -> bytes:
    """Return Spark's call ``get_partitions_by_filter`` without a limit."""
    return encode_call("get_partitions_by_filter", *map(text_value, (db, table, text)), NO_LIMIT)


def names_by_expression(db: str, table: str, day: str = DAY) -> bytes:
    """Return ``get_partition_names_req`` for ``DAY_EXPRESSION`` with another day."""
    data = DAY_EXPRESSION.replace(_encode_day(DAY), _encode_day(day))
    expression = Value(TType.STRING, struct.pack(">i", len(data)) + data)
    fields = [(1, text_value(db)), (2, text_value(table)), (3, expression), (5, NO_LIMIT)]
    return encode_call("get_partition_names_req", struct_value(fields))


class WireClient:
    """One connection; a context manager."""

    def __init__(self, port: int) -> None:
        self._peer = Peer(socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.close()

    def call(self, request: bytes) -> Message:
        """Return the answer of any length; raise AssertionError if it is Thrift's own exception."""
        answer = self._exchange(request)
        assert answer.header.kind == TMessageType.REPLY, answer.body
        return answer

    def knows(self, request: bytes) -> bool:
        """Whether the server has the call."""
        return bool(self._exchange(request).header.kind == TMessageType.REPLY)

    def _exchange(self, request: bytes) -> Message:
        self._peer.send(request, TIMEOUT_S)
        return receive_request(self._peer, Transport.BUFFERED, bytes_max=1 << 30, complete_s=TIMEOUT_S)

    def time_call(self, request: bytes, size: int) -> float:
        """Return the seconds until the last byte of an answer of ``size`` bytes has arrived."""
        handle, missing = self._peer.handle, size
        began_s = time.perf_counter()
        handle.sendall(request)
        while missing > 0:
            chunk = handle.recv(1 << 20)
            assert chunk, "the connection was closed"
            missing -= len(chunk)
        assert missing == 0, "the length of the answer differs from before"
        return time.perf_counter() - began_s
