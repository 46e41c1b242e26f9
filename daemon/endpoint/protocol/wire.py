"""Reads and writes Thrift's binary protocol as bytes: message headers, and the fields of structs without
their declarations.

Values remain the received bytes. So a table can move from one answer into another with every field, including
fields that Tideline does not know.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer, TTransportException

from handlers.structs.struct import Struct, resolve
from state.errors import BadInput


VERSION_1: Final = 0x80010000
VERSION_MASK: Final = 0xFFFF0000
_STRICT: Final = (VERSION_1 >> 16).to_bytes(2)
NAME_BYTES_MAX: Final = 512
BYTES_MAX: Final = 2**31 - 1
STOP: Final = b"\x00"
_FIXED: Final = {
    TType.BOOL: 1,
    TType.BYTE: 1,
    TType.I16: 2,
    TType.I32: 4,
    TType.I64: 8,
    TType.DOUBLE: 8,
}
"""Sizes of the types that have one."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a message. A strict one begins with a version, an old one with the length of the name."""

    name: str
    kind: int
    sequence: int
    strict: bool = True

    def to_bytes(self) -> bytes:
        """Return the bytes of the header."""
        name = self.name.encode()
        if self.strict:
            return (
                struct.pack(">Ii", VERSION_1 | self.kind, len(name)) + name + struct.pack(">i", self.sequence)
            )
        return struct.pack(">i", len(name)) + name + struct.pack(">bi", self.kind, self.sequence)


@dataclass(frozen=True, slots=True)
class Message:
    """A complete message: its header, and the bytes of its struct (arguments or answer)."""

    header: Header
    body: bytes
    raw: bytes = b""
    """The message as received, without the length of its frame; empty for a message made here."""

    def to_bytes(self) -> bytes:
        """Return the bytes of the message."""
        return self.raw or self.header.to_bytes() + self.body

    @property
    def name(self) -> str:
        """The name of the call."""
        return self.header.name

    @property
    def is_oneway(self) -> bool:
        """Whether the call has no answer. Some generated clients send ``shutdown`` of fb303 as an ordinary
        call.
        """
        return self.header.kind == TMessageType.ONEWAY or self.header.name == "shutdown"

    @property
    def is_unknown_method(self) -> bool:
        """Whether this answer reports that the server does not have the call."""
        if self.header.kind != TMessageType.EXCEPTION:
            return False
        kind = read_fields(self.body).get(2)
        return kind == Value(TType.I32, struct.pack(">i", TApplicationException.UNKNOWN_METHOD))

    def successor(self, name: str, body: bytes) -> Message:
        """Return the request with another call's name and other arguments."""
        return Message(replace(self.header, name=name), body)

    def answer(self, body: bytes, kind: int = TMessageType.REPLY) -> Message:
        """Return an answer to this request."""
        return Message(replace(self.header, kind=kind), body)

    def failure(self, text: str) -> Message:
        """Return Thrift's own exception as the answer to this request."""
        fields = [(1, text_value(text)), (2, i32_value(TApplicationException.INTERNAL_ERROR))]
        return self.answer(write_struct(fields), TMessageType.EXCEPTION)


class Value(NamedTuple):
    """The value of a field: its type and its bytes."""

    kind: int
    data: bytes

    def to_text(self) -> str:
        """Return the value of a string field; raise BadInput for anything else."""
        if self.kind != TType.STRING:
            raise BadInput("an argument of the call must be a string", type=self.kind)
        try:
            return self.data[4:].decode()
        except UnicodeDecodeError as error:
            raise BadInput("a string in the arguments of the call is not UTF-8") from error


def text_value(text: str) -> Value:
    """Return a string value."""
    data = text.encode()
    return Value(TType.STRING, struct.pack(">i", len(data)) + data)


def i32_value(number: int) -> Value:
    """Return an i32 value."""
    return Value(TType.I32, struct.pack(">i", number))


def struct_value(fields: Iterable[tuple[int, Value]]) -> Value:
    """Return a struct value."""
    return Value(TType.STRUCT, write_struct(fields))


def empty_list(kind: int) -> Value:
    """Return an empty list of elements of a type."""
    return Value(TType.LIST, struct.pack(">bi", kind, 0))


def is_empty_list(value: Value) -> bool:
    """Whether a value is a list without elements."""
    return value.kind == TType.LIST and value.data[1:] == b"\x00" * 4


def write_struct(fields: Iterable[tuple[int, Value]]) -> bytes:
    """Return a struct with these fields (number and value)."""
    return b"".join(struct.pack(">bh", value.kind, number) + value.data for number, value in fields) + STOP


def read_fields(data: bytes) -> dict[int, Value]:
    """Return the fields of a struct by number; raise BadInput for bytes that are not exactly one struct."""
    transport = TMemoryBuffer(data)
    protocol = _protocol(transport)
    fields = {}
    try:
        while (kind := protocol.readByte()) != TType.STOP:
            number = protocol.readI16()
            start = transport.cstringio_buf.tell()
            skip_value(protocol, kind)
            fields[number] = Value(kind, data[start : transport.cstringio_buf.tell()])
    except MALFORMED as error:
        raise BadInput("the message is not valid Thrift", reason=str(error)) from error
    if transport.cstringio_buf.tell() != len(data):
        raise BadInput("bytes follow the end of the message", bytes=len(data))
    return fields


def read_header(read: Callable[[int], bytes]) -> Header:
    """Read a header, strict or old; raise BadInput if it is neither."""
    (first,) = struct.unpack(">I", read(4))
    if first & VERSION_MASK == VERSION_1:
        name = _read_name(read, *struct.unpack(">i", read(4)))
        (sequence,) = struct.unpack(">i", read(4))
        return Header(name, first & 0xFF, sequence)
    name = _read_name(read, first)
    kind, sequence = struct.unpack(">bi", read(5))
    return Header(name, kind, sequence, strict=False)


def _read_name(read: Callable[[int], bytes], size: int) -> str:
    if not 0 < size <= NAME_BYTES_MAX:
        raise BadInput(
            "the message does not begin with a header of Thrift's binary protocol", name_bytes=size
        )
    try:
        return read(size).decode()
    except UnicodeDecodeError as error:
        raise BadInput("the name of the call is not UTF-8") from error


MALFORMED: Final = (
    TProtocolException,
    TTransportException,
    EOFError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
)
"""Errors of Thrift's library for bytes that are not Thrift."""


class _AnyStruct(Struct):
    """A struct without declared fields, so that reading it skips everything."""


resolve()


def skip_struct(transport: Any) -> None:
    """Read a struct to its end with Thrift's C extension; raise ``MALFORMED``, including for nesting that is
    too deep.
    """
    _AnyStruct().read(_protocol(transport))


def is_struct(data: bytes) -> bool:
    """Whether bytes are exactly one complete struct."""
    transport = TMemoryBuffer(data)
    try:
        skip_struct(transport)
    except MALFORMED:
        return False
    return bool(transport.cstringio_buf.tell() == len(data))


def read_message(data: bytes, is_body: Callable[[bytes], bool] = is_struct) -> Message | None:
    """Return the message in ``data``; None if it is not exactly one complete message with a strict header.

    ``is_body`` decides whether the bytes after the header are the body.
    """
    size = int.from_bytes(data[4:8])
    end = 8 + size
    if data[:2] != _STRICT or not 0 < size <= NAME_BYTES_MAX or len(data) < end + 5:
        return None
    body = data[end + 4 :]
    if not is_body(body):
        return None
    try:
        name = data[8:end].decode()
    except UnicodeDecodeError:
        return None
    return Message(Header(name, data[3], int.from_bytes(data[end : end + 4], signed=True)), body, data)


def skip_value(protocol: Any, kind: int) -> None:
    """Read a value to its end; raise ``MALFORMED``, including for types that do not exist."""
    if kind in _FIXED:
        protocol.trans.readAll(_FIXED[kind])
    elif kind == TType.STRING:
        protocol.readBinary()
    elif kind == TType.STRUCT:
        _AnyStruct().read(protocol)
    elif kind == TType.MAP:
        *kinds, size = protocol.readMapBegin()
        _skip_elements(protocol, kinds, size)
    elif kind in {TType.LIST, TType.SET}:
        element, size = protocol.readListBegin()
        _skip_elements(protocol, [element], size)
    else:
        raise TProtocolException(TProtocolException.INVALID_DATA, f"unknown type {kind}")


def _skip_elements(protocol: Any, kinds: list[int], size: int) -> None:
    for _ in range(size):
        for kind in kinds:
            skip_value(protocol, kind)


def _protocol(transport: Any) -> Any:
    return TBinaryProtocolAccelerated(
        transport, string_length_limit=BYTES_MAX, container_length_limit=BYTES_MAX
    )
