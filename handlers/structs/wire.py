"""The types of Thrift fields: how an annotation such as ``list[FieldSchema] | None`` goes over the wire.

Python has one ``int`` where Thrift has four, so a field says its width with the aliases of this module (``i32``, ``i64``);
``str`` is UTF-8 text and ``bytes`` binary. A field may also name an enum, ``Annotated[i32 | None, 18, PrincipalType]``: the
value stays a plain int on the wire and in Python (a newer server may send a constant that we do not know), and readers of
JSON by field name know the constants' names.
"""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from thrift.Thrift import TType


if TYPE_CHECKING:
    from enum import IntEnum


i8 = Annotated[int, TType.BYTE]
i16 = Annotated[int, TType.I16]
i32 = Annotated[int, TType.I32]
i64 = Annotated[int, TType.I64]

_PLAIN: Final[dict[object, int]] = {
    bool: TType.BOOL,
    float: TType.DOUBLE,
    str: TType.STRING,
    bytes: TType.STRING,
}
# a tuple is a list that can be the key of a map
_CONTAINERS: Final[dict[object, int]] = {list: TType.LIST, tuple: TType.LIST, set: TType.SET, dict: TType.MAP}
_NAMES: Final[dict[int, str]] = {
    TType.BOOL: "bool",
    TType.BYTE: "i8",
    TType.I16: "i16",
    TType.I32: "i32",
    TType.I64: "i64",
    TType.DOUBLE: "double",
    TType.STRING: "string",
    TType.LIST: "list",
    TType.SET: "set",
    TType.MAP: "map",
}


@dataclass(frozen=True, slots=True)
class WireType:
    """One Thrift type. ``elements`` are those of a list or set (one), or of a map (key, value)."""

    ttype: int
    python: Any
    elements: tuple[WireType, ...] = ()

    @property
    def is_struct(self) -> bool:
        """Whether ``python`` is a struct class."""
        return bool(self.ttype == TType.STRUCT)

    @property
    def is_binary(self) -> bool:
        """Whether this is ``binary`` and not text."""
        return self.python is bytes

    def idl(self) -> str:
        """Spell the type as Thrift's interface language does."""
        if self.elements:
            return f"{_NAMES[self.ttype]}<{','.join(element.idl() for element in self.elements)}>"
        if self.is_struct:
            return str(self.python.__name__)
        return "binary" if self.is_binary else _NAMES[self.ttype]

    def thrift_arguments(self) -> Any:
        """Return what thrift's ``thrift_spec`` wants as the type's arguments.

        A struct's own spec is left None here, since structs refer to each other in circles; ``fix_spec`` of the thrift
        library fills it in once all are known.
        """
        if self.is_struct:
            return [self.python, None]
        if self.ttype == TType.STRING:
            return "BINARY" if self.is_binary else "UTF8"
        if self.elements:
            flat: list[Any] = []
            for element in self.elements:
                flat += [element.ttype, element.thrift_arguments()]
            return (*flat, self.python is tuple)  # the last item asks thrift for a hashable value
        return None


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct; ``required`` ones have no default."""

    number: int
    name: str
    wire: WireType
    required: bool
    enum: type[IntEnum] | None = None


def wire_type(annotation: Any) -> WireType:
    """Read the annotation of a value; raise TypeError for one that Thrift has no type for."""
    container = typing.get_origin(annotation)
    if container is Annotated:
        python, ttype = typing.get_args(annotation)
        return WireType(ttype, python)
    if container in _CONTAINERS:
        elements = tuple(wire_type(part) for part in typing.get_args(annotation) if part is not Ellipsis)
        return WireType(_CONTAINERS[container], container, elements)
    if annotation in _PLAIN:
        return WireType(_PLAIN[annotation], annotation)
    if isinstance(annotation, type) and hasattr(annotation, "thrift_spec"):
        return WireType(TType.STRUCT, annotation)
    raise TypeError(f"{annotation!r} is no Thrift type")


def field_of(name: str, annotation: Any, *, required: bool) -> Field:
    """Read ``Annotated[TYPE, NUMBER]`` or ``Annotated[TYPE | None, NUMBER, ENUM]``, the annotation of a struct's field."""
    declared, metadata = annotation.__origin__, annotation.__metadata__
    if declared is int:  # Annotated flattens: Annotated[i32, 4] is Annotated[int, TType.I32, 4]
        declared, metadata = Annotated[declared, metadata[0]], metadata[1:]
    elif typing.get_origin(declared) in {typing.Union, types.UnionType}:
        (declared,) = (part for part in typing.get_args(declared) if part is not types.NoneType)
    number, *enum = metadata
    return Field(number, name, wire_type(declared), required, *enum)
