"""Writers that convert structs to Thrift JSON as Java writes it: the inverse of ``json_readers``."""

from __future__ import annotations

import math
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

from thrift.Thrift import TType

from handlers.structs.json_readers import TAGS, Convert, defer, once_per_class


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.structs.struct import Struct, WireType


class KeyNotTextError(TypeError):
    """The key of a map cannot be the key of a JSON object."""


@once_per_class
def struct_writer(cls: type[Struct]) -> Convert:
    """Return the writer of a struct class; its result can be passed to a JSON encoder."""
    known = [(f.name, str(f.number), TAGS[f.wire.ttype], _writer(f.wire)) for f in cls.fields]

    def write(value: Any) -> dict[str, Any]:
        if type(value) is not cls:
            raise TypeError(f"{value!r} is not a {cls.__name__}")
        mine = value.__dict__
        return {
            number: {tag: convert(mine[name])}
            for name, number, tag, convert in known
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
