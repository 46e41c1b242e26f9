"""Requests of the partition calls as clients send them, and the answers as values."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

from daemon.endpoint.answers.partition_calls import CALLS, Content
from daemon.endpoint.protocol.wire import (
    Header,
    Message,
    Value,
    read_fields,
    struct_value,
    text_value,
    write_struct,
)
from daemon.endpoint.verification.verifier import read_value
from handlers.structs import binary
from handlers.structs.objects import Partition


def texts(*values: str) -> Value:
    """Return a list of texts."""
    elements = b"".join(text_value(value).data for value in values)
    return Value(TType.LIST, struct.pack(">bi", TType.STRING, len(values)) + elements)


def i16(number: int) -> Value:
    """Return an i16."""
    return Value(TType.I16, struct.pack(">h", number))


def flag(value: bool) -> Value:
    """Return a bool."""
    return Value(TType.BOOL, bytes([value]))


def binary_value(data: bytes) -> Value:
    """Return a binary value."""
    return Value(TType.STRING, struct.pack(">i", len(data)) + data)


def positional(call: str, *values: str | int | Sequence[str] | None) -> Message:
    """Return a request with these arguments; None leaves one out."""
    fields = [(number, _value(value)) for number, value in enumerate(values, 1) if value is not None]
    return Message(Header(call, TMessageType.CALL, 7), write_struct(fields))


def request(call: str, fields: dict[int, Any]) -> Message:
    """Return a request with one struct of these fields."""
    inner = struct_value((number, _value(value)) for number, value in fields.items())
    return Message(Header(call, TMessageType.CALL, 7), write_struct([(1, inner)]))


def _value(value: Any) -> Value:
    match value:
        case Value():
            return value
        case bool():
            return flag(value)
        case int():
            return i16(value)
        case str():
            return text_value(value)
        case _:
            return texts(*value)


def read_answer(answer: Message) -> Any:
    """Return the partitions, names or number of an answer; the bytes of an exception otherwise."""
    fields = read_fields(answer.body)
    if 0 not in fields:
        return answer.body
    call, value = CALLS[answer.name], fields[0]
    if call.is_wrapped:
        value = read_fields(value.data)[1]
    match call.content:
        case Content.COUNT:
            return int.from_bytes(value.data)
        case Content.PARTITION:
            return binary.decode(Partition, value.data)
        case Content.NAMES:
            return _elements(value.data, lambda protocol: protocol.readString())
        case Content.SPECS:
            return read_value(answer.body)
        case Content.PARTITIONS:
            return _elements(value.data, _read_partition)


def _elements(data: bytes, read: Any) -> list[Any]:
    protocol = TBinaryProtocolAccelerated(TMemoryBuffer(data))
    _, count = protocol.readListBegin()
    return [read(protocol) for _ in range(count)]


def _read_partition(protocol: Any) -> Partition:
    partition = Partition.__new__(Partition)
    partition.read(protocol)
    return partition
