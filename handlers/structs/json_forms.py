"""Converts structs from and to parsed JSON, by readers and writers built once for each struct class.

There are two forms: Thrift JSON, with fields by number and values by type tag, which is read and written; and
plain JSON with field names, as Jackson writes Thrift beans (the Apiary listener's messages), which is only
read. A reader raises ValueError, or Python's own error for a value of the wrong shape; ``tjson`` turns these
into MalformedEvent. Writers write the same bytes as Java.
"""

from __future__ import annotations

import binascii
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from thrift.Thrift import TType

from handlers.structs.struct import Field, Struct, WireType


Convert = Callable[[Any], Any]

TAGS: Final = {
    TType.BOOL: "tf",
    TType.BYTE: "i8",
    TType.I16: "i16",
    TType.I32: "i32",
    TType.I64: "i64",
    TType.DOUBLE: "dbl",
    TType.STRING: "str",
    TType.STRUCT: "rec",
    TType.LIST: "lst",
    TType.SET: "set",
    TType.MAP: "map",
}
_BITS: Final = {TType.BYTE: 8, TType.I16: 16, TType.I32: 32, TType.I64: 64}


def once_per_class(build: Callable[[type[Struct]], Convert]) -> Callable[[type[Struct]], Convert]:
    """Cache the result of ``build`` for each class; unlike ``functools.cache``, it keeps the type of the
    function.
    """
    built: dict[type[Struct], Convert] = {}

    def look_up(cls: type[Struct]) -> Convert:
        if cls not in built:
            built[cls] = build(cls)
        return built[cls]

    return look_up


@once_per_class
def struct_reader(cls: type[Struct]) -> Convert:
    """Return the reader of a struct class for parsed Thrift JSON."""
    readers = {str(f.number): (f.name, TAGS[f.wire.ttype], _reader(f.wire)) for f in cls.fields}
    required = [f.name for f in cls.fields if f.required]
    new = object.__new__

    def read(value: Any) -> Struct:
        values = {}
        for number, tagged in value.items():
            if number in readers:
                name, tag, convert = readers[number]
                if tag in tagged:
                    values[name] = convert(tagged[tag])
        for name in required:
            if name not in values:
                raise ValueError(f"{cls.__name__}.{name} is missing")
        struct = new(cls)
        struct.__dict__.update(values)
        return struct

    return read


def _reader(wire: WireType) -> Convert:
    if wire.is_struct:
        return defer(struct_reader, wire.python)
    if wire.ttype in {TType.LIST, TType.SET}:
        return _sequence_reader(wire)
    if wire.ttype == TType.MAP:
        return _map_reader(wire)
    return scalar_reader(wire)


def defer(build: Callable[[Any], Convert], cls: type[Struct]) -> Convert:
    """Return a converter built at its first use, because structs refer to each other in cycles."""

    def convert(value: Any) -> Any:
        return build(cls)(value)

    return convert


def scalar_reader(wire: WireType) -> Convert:
    """Return the reader of a type that is neither a struct nor a container."""
    if wire.is_binary:
        return _read_binary
    if wire.ttype == TType.STRING:
        return read_text
    if wire.ttype == TType.DOUBLE:
        return float  # Java writes "NaN", "Infinity" and "-Infinity" as strings
    if wire.ttype == TType.BOOL:
        return _read_flag
    return _integer_reader(_BITS[wire.ttype])


def read_text(value: Any) -> str:
    """Return ``value`` if it is a string; raise ValueError otherwise."""
    if type(value) is not str:
        raise ValueError(f"{value!r} is not a string")
    return value


def _integer_reader(bits: int) -> Convert:
    lowest, highest = -(1 << bits - 1), (1 << bits - 1) - 1

    def read(value: Any) -> int:
        if type(value) is not int or not lowest <= value <= highest:
            raise ValueError(f"{value!r} is not an integer of {bits} bits")
        return value

    return read


def _read_flag(value: Any) -> bool:
    if value not in {0, 1}:
        raise ValueError(f"{value!r} is not a boolean")
    return bool(value)


def _read_binary(value: Any) -> bytes:
    text = read_text(value)
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(f"invalid base64: {error}") from error


def _sequence_reader(wire: WireType) -> Convert:
    (element,) = wire.elements
    tag, convert, collect = TAGS[element.ttype], _reader(element), wire.python

    def read(value: Any) -> Any:
        if value[0] != tag and value[1]:
            raise ValueError(f"elements are {value[0]!r}, expected {tag!r}")
        return collect([convert(item) for item in value[2:]])

    return read


def _map_reader(wire: WireType) -> Convert:
    key, item = wire.elements
    tags = [TAGS[key.ttype], TAGS[item.ttype]]
    of_key: Convert = read_text if key.ttype == TType.STRING else int
    of_item = _reader(item)
    plain_text = key.ttype == TType.STRING and item.ttype == TType.STRING and not item.is_binary

    def read(value: Any) -> dict[Any, Any]:
        if value[:2] != tags and value[2]:
            raise ValueError(f"entries are {value[:2]}, expected {tags}")
        entries = value[3]
        if plain_text and all(type(text) is str for text in entries.values()):
            return dict(entries)
        return {of_key(name): of_item(part) for name, part in entries.items()}

    return read


@once_per_class
def named_reader(cls: type[Struct]) -> Convert:
    """Return the reader of a struct class for a mapping of field names.

    Ignores unknown names. Enums are names or numbers, binary is base64, and a map whose keys are lists is an
    array of ``{"key": …, "value": …}``.
    """
    readers = [(f.name, _plain_reader(f)) for f in cls.fields]
    required = [f.name for f in cls.fields if f.required]

    def read(mapping: Any) -> Struct:
        values = {name: convert(mapping[name]) for name, convert in readers if mapping.get(name) is not None}
        for name in required:
            if name not in values:
                raise ValueError(f"{cls.__name__}.{name} is missing")
        struct: Struct = cls(**values)
        return struct

    return read


def _plain_reader(field: Field) -> Convert:
    if field.enum is None:
        return _plain(field.wire)
    constants, number = field.enum.__members__, scalar_reader(field.wire)
    return lambda value: int(constants[value]) if type(value) is str else number(value)


def _plain(wire: WireType) -> Convert:
    if wire.is_struct:
        return defer(named_reader, wire.python)
    if wire.ttype in {TType.LIST, TType.SET}:
        convert, collect = _plain(wire.elements[0]), wire.python
        return lambda value: collect([convert(item) for item in _array(value)])
    if wire.ttype == TType.MAP:
        of_key, of_item = _plain(wire.elements[0]), _plain(wire.elements[1])
        return lambda value: {of_key(key): of_item(item) for key, item in _entries(value)}
    return scalar_reader(wire)


def _array(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError(f"{value!r} is not an array")
    return value


def _entries(value: Any) -> Any:
    if type(value) is list:
        return [(entry["key"], entry["value"]) for entry in value]
    return value.items()


class KeyNotTextError(TypeError):
    """The key of a map cannot be the key of a JSON object."""


@once_per_class
def struct_writer(cls: type[Struct]) -> Convert:
    """Return the writer of a struct class; its result can be passed to a JSON encoder."""
    writers = [(f.name, str(f.number), TAGS[f.wire.ttype], _writer(f.wire)) for f in cls.fields]

    def write(value: Any) -> dict[str, Any]:
        if type(value) is not cls:
            raise TypeError(f"{value!r} is not a {cls.__name__}")
        mine = value.__dict__
        return {
            number: {tag: convert(mine[name])}
            for name, number, tag, convert in writers
            if mine.get(name) is not None
        }

    return write


def _writer(wire: WireType) -> Convert:
    if wire.is_struct:
        return defer(struct_writer, wire.python)
    if wire.ttype in {TType.LIST, TType.SET}:
        tag, convert = TAGS[wire.elements[0].ttype], _writer(wire.elements[0])
        return lambda value: [tag, len(value), *[convert(item) for item in value]]
    if wire.ttype == TType.MAP:
        return _map_writer(wire)
    return _write_binary if wire.is_binary else _SCALARS.get(wire.ttype, _keep)


def _keep(value: Any) -> Any:
    return value


def _write_binary(value: bytes) -> str:
    return b64encode(value).decode().rstrip("=")


def _write_double(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


_SCALARS: Final[dict[int, Convert]] = {TType.BOOL: int, TType.DOUBLE: _write_double}


def _map_writer(wire: WireType) -> Convert:
    key, item = wire.elements
    tags = [TAGS[key.ttype], TAGS[item.ttype]]
    convert = _writer(item)

    def write(value: Mapping[Any, Any]) -> list[Any]:
        if value and key.elements:
            raise KeyNotTextError
        return [*tags, len(value), {str(name): convert(part) for name, part in value.items()}]

    return write
