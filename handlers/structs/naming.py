"""Structs from plain JSON by field names, as Jackson writes Thrift beans (the Apiary listener's Kafka messages).

Unknown names are ignored; enums come as names or numbers, binary as base64, a map whose keys are lists as an array of
``{"key": …, "value": …}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thrift.Thrift import TType

from handlers.structs.reading import Convert, later, once_per_class, scalar_reader


if TYPE_CHECKING:
    from handlers.structs.struct import Struct
    from handlers.structs.wire import Field, WireType


@once_per_class
def named_reader(cls: type[Struct]) -> Convert:
    """Return the reader of a struct class: a mapping by field names in, struct out."""
    known = [(f.name, _plain_reader(f)) for f in cls.fields]
    required = [f.name for f in cls.fields if f.required]

    def read(mapping: Any) -> Struct:
        found = {name: convert(mapping[name]) for name, convert in known if mapping.get(name) is not None}
        for name in required:
            if name not in found:
                raise ValueError(f"{cls.__name__}.{name} is missing")
        made: Struct = cls(**found)
        return made

    return read


def _plain_reader(field: Field) -> Convert:
    if field.enum is None:
        return _plain(field.wire)
    constants, number = field.enum.__members__, scalar_reader(field.wire)
    return lambda value: int(constants[value]) if type(value) is str else number(value)


def _plain(wire: WireType) -> Convert:
    if wire.is_struct:
        return later(named_reader, wire.python)
    if wire.ttype in {TType.LIST, TType.SET}:
        convert, collect = _plain(wire.elements[0]), wire.python
        return lambda value: collect([convert(item) for item in _array(value)])
    if wire.ttype == TType.MAP:
        of_key, of_item = _plain(wire.elements[0]), _plain(wire.elements[1])
        return lambda value: {of_key(key): of_item(item) for key, item in _entries(value)}
    return scalar_reader(wire)


def _array(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError(f"{value!r} is no array")
    return value


def _entries(value: Any) -> Any:
    if type(value) is list:
        return [(entry["key"], entry["value"]) for entry in value]
    return value.items()
