"""Reads and writes objects that are embedded in notification messages, and objects given by field name.

Java writes them with Thrift's JSON protocol, ``{"<field number>":{"<type tag>":value}}``. Thrift's own Python reader takes a
character at a time (milliseconds for a table), so the text goes through a real JSON parser and is converted by readers that
are built once per struct from its fields.

Promises: unknown fields, and known fields with another type, are skipped, as Thrift does; raw control characters inside
strings are tolerated (Java writes them); unpadded base64 is read and written; whatever else is wrong with the text is a
MalformedEvent with the reason, never another exception. Text longer than ``TEXT_CHARS_MAX`` is a LimitExceeded.

Thrift JSON is not always JSON: a map whose keys are lists (locations of skewed values) has arrays where JSON wants strings.
Only such text takes the slow way through thrift's reader and writer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson
from thrift.protocol.TJSONProtocol import TJSONProtocol
from thrift.Thrift import TException
from thrift.transport.TTransport import TMemoryBuffer

from handlers.structs.json_readers import named_reader, struct_reader
from handlers.structs.json_writers import KeyIsNoTextError, struct_writer
from handlers.structs.struct import Struct
from state.errors import LimitExceeded, MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Mapping

S = TypeVar("S", bound=Struct)
TEXT_CHARS_MAX: Final = 64 * 1024 * 1024
_BROKEN: Final = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    RecursionError,
    EOFError,
    TException,
)


def decode(cls: type[S], text: str) -> S:
    """Read Thrift JSON; raise MalformedEvent where ``text`` is no ``cls``."""
    if len(text) > TEXT_CHARS_MAX:
        raise LimitExceeded(
            "The embedded object is too long.", struct=cls.__name__, chars=len(text), limit=TEXT_CHARS_MAX
        )
    try:
        value: S = struct_reader(cls)(_parsed(text))
    except json.JSONDecodeError as error:
        if "{[" not in text:
            raise _malformed(cls, error) from error
        return _decoded_slowly(cls, text)
    except _BROKEN as error:
        raise _malformed(cls, error) from error
    return value


def encode(value: Struct) -> str:
    """Write Thrift JSON as Java does: fields by number, those without a value left out.

    Raises MalformedEvent where a field has a value of another type than its own, or a text that is no Unicode.
    """
    try:
        return orjson.dumps(struct_writer(type(value))(value)).decode()
    except KeyIsNoTextError:
        return _encoded_slowly(value)
    except _BROKEN as error:
        raise _malformed(type(value), error) from error


def from_names(cls: type[S], mapping: Mapping[str, Any]) -> S:
    """Build a struct from plain JSON by field names, as Jackson writes Thrift beans (reference: Apiary's Kafka listener).

    Unknown names are ignored; enums come as names or numbers, binary as base64, a map whose keys are lists as an array of
    ``{"key": …, "value": …}``. Raises MalformedEvent where a value has another shape than its field.
    """
    try:
        value: S = named_reader(cls)(mapping)
    except _BROKEN as error:
        raise _malformed(cls, error) from error
    return value


def _malformed(cls: type[Struct], error: BaseException) -> MalformedEvent:
    reason = (
        "it is nested too deeply" if isinstance(error, RecursionError) else str(error) or type(error).__name__
    )
    return MalformedEvent(
        f"The embedded object is no {cls.__name__}.", struct=cls.__name__, reason=reason[:300]
    )


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text, strict=False)


def _decoded_slowly(cls: type[S], text: str) -> S:
    made = cls()
    try:
        protocol = TJSONProtocol(TMemoryBuffer(text.encode()))
        protocol.readStruct(made, cls.thrift_spec)
    except _BROKEN as error:
        raise _malformed(cls, error) from error
    return made


def _encoded_slowly(value: Struct) -> str:
    buffer = TMemoryBuffer()
    TJSONProtocol(buffer).writeStruct(value, value.thrift_spec)
    return bytes(buffer.getvalue()).decode()
