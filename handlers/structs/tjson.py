"""Thrift JSON: reads and writes the objects embedded in notification messages, and objects given by field
names.

Java writes embedded objects with Thrift's JSON protocol, ``{"<field number>":{"<type tag>":value}}``.
Thrift's own Python reader processes one character at a time and takes milliseconds for a table. Here a JSON
parser reads the text, and readers built once for each struct class convert the result.

Like Thrift, reading skips unknown fields and fields with another type. Raw control characters inside strings
are accepted, because Java writes them, and base64 may be unpadded. Any other defect of the text raises
MalformedEvent with a reason, never another exception. Text longer than ``TEXT_CHARS_MAX``, or with too many
values (``json_limits``), raises LimitExceeded.

Thrift JSON is not always JSON: a map whose keys are lists (locations of skewed values) has arrays in place of
JSON's strings. Only such text goes through Thrift's slow reader and writer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import orjson
from thrift.protocol.TJSONProtocol import TJSONProtocol
from thrift.Thrift import TException
from thrift.transport.TTransport import TMemoryBuffer

from handlers.structs.json_forms import KeyNotTextError, named_reader, struct_reader, struct_writer
from handlers.structs.json_limits import check_size
from handlers.structs.struct import Struct
from state.errors import LimitExceeded, MalformedEvent


S = TypeVar("S", bound=Struct)
TEXT_CHARS_MAX: Final = 64 * 1024 * 1024
SLOW_CHARS_MAX: Final = 1024 * 1024
"""Longest text for Thrift's own reader, which takes about a microsecond for each character."""
_ERRORS: Final = (
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
    """Read Thrift JSON; raise MalformedEvent if ``text`` is not a ``cls``."""
    if len(text) > TEXT_CHARS_MAX:
        raise LimitExceeded(
            "the embedded object is too long", struct=cls.__name__, chars=len(text), limit=TEXT_CHARS_MAX
        )
    try:
        value: S = struct_reader(cls)(_parse(text))
    except json.JSONDecodeError as error:
        if "{[" not in text or len(text) > SLOW_CHARS_MAX:
            raise _malformed(cls, error) from error
        return _decode_slowly(cls, text)
    except _ERRORS as error:
        raise _malformed(cls, error) from error
    return value


def encode(value: Struct) -> str:
    """Write Thrift JSON as Java does: fields by number, without those that have no value.

    Raises MalformedEvent if a field has a value of the wrong type or a string that is not valid Unicode.
    """
    try:
        return orjson.dumps(struct_writer(type(value))(value)).decode()
    except KeyNotTextError:
        buffer = TMemoryBuffer()
        TJSONProtocol(buffer).writeStruct(value, value.thrift_spec)
        return bytes(buffer.getvalue()).decode()
    except _ERRORS as error:
        raise _malformed(type(value), error) from error


def from_names(cls: type[S], mapping: Mapping[str, Any]) -> S:
    """Build a struct from plain JSON with field names,
    as Jackson writes Thrift beans (reference: event-listeners.md §1).

    ``json_forms.named_reader`` describes the form. Raises MalformedEvent if a value does not have the shape
    of its field.
    """
    try:
        value: S = named_reader(cls)(mapping)
    except _ERRORS as error:
        raise _malformed(cls, error) from error
    return value


def _malformed(cls: type[Struct], error: BaseException) -> MalformedEvent:
    reason = "nested too deeply" if isinstance(error, RecursionError) else str(error) or type(error).__name__
    return MalformedEvent(
        f"the embedded object is not a valid {cls.__name__}", struct=cls.__name__, reason=reason[:300]
    )


def _parse(text: str) -> Any:
    check_size(text)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text, strict=False)


def _decode_slowly(cls: type[S], text: str) -> S:
    value = cls()
    try:
        protocol = TJSONProtocol(TMemoryBuffer(text.encode()))
        protocol.readStruct(value, cls.thrift_spec)
    except _ERRORS as error:
        raise _malformed(cls, error) from error
    return value
