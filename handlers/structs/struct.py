"""A Thrift struct as a class whose annotated fields are its wire format.

::

    class FieldSchema(Struct):
        name: Annotated[str | None, 1] = None
        type: Annotated[str | None, 2] = None

The generated classes of ``hmsclient`` know only the fields of Hive 2.x. Reading a Hive 4 table with them and
writing it back would silently drop the write id, the owner's type and the capabilities. The structs here are
the superset of all supported Hive versions: a server skips fields that it does not know, and a field without
a value is not sent, so that the server's own default applies.

Structs are read and written by Thrift's binary protocols, plain and accelerated. Two structs are equal when
all their fields are equal, and ``copy()`` is deep. Field names are those of Hive's interface.

Python has one ``int`` for Thrift's four, so annotations state the width with ``i8`` to ``i64``; ``str`` is
UTF-8 text and ``bytes`` is binary. A field may also name an enum, ``Annotated[i32 | None, 18,
PrincipalType]``. Its value stays a plain int, because a newer server may send an unknown constant; the enum
serves readers of JSON that contains the constants' names.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Final, Self, dataclass_transform

from thrift.Thrift import TType
from thrift.transport.TTransport import CReadableTransport
from thrift.TRecursive import fix_spec


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


@dataclass(frozen=True, slots=True)
class WireType:
    """One Thrift type.
    ``elements`` holds the element type of a list or set, or the key and value types of a map.
    """

    ttype: int
    python: Any
    elements: tuple[WireType, ...] = ()

    @property
    def is_struct(self) -> bool:
        """Whether ``python`` is a struct class."""
        return bool(self.ttype == TType.STRUCT)

    @property
    def is_binary(self) -> bool:
        """Whether this is ``binary``, not text."""
        return self.python is bytes

    def thrift_arguments(self) -> Any:
        """Return the arguments of this type in Thrift's ``thrift_spec``.

        The spec of a struct is None here, because structs refer to each other in cycles; ``fix_spec`` of the
        Thrift library fills it in once all of them are known.
        """
        if self.is_struct:
            return [self.python, None]
        if self.ttype == TType.STRING:
            return "BINARY" if self.is_binary else "UTF8"
        if self.elements:
            flat: list[Any] = []
            for element in self.elements:
                flat += [element.ttype, element.thrift_arguments()]
            return (*flat, self.python is tuple)  # the last item requests a hashable value
        return None


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct; ``required`` ones have no default."""

    number: int
    name: str
    wire: WireType
    required: bool
    enum: type[IntEnum] | None = None


def parse_wire_type(annotation: Any) -> WireType:
    """Return the Thrift type of an annotation; raise TypeError if there is none."""
    container = typing.get_origin(annotation)
    if container is Annotated:
        python, ttype = typing.get_args(annotation)
        return WireType(ttype, python)
    if container in _CONTAINERS:
        elements = tuple(
            parse_wire_type(part) for part in typing.get_args(annotation) if part is not Ellipsis
        )
        return WireType(_CONTAINERS[container], container, elements)
    if annotation in _PLAIN:
        return WireType(_PLAIN[annotation], annotation)
    if isinstance(annotation, type) and hasattr(annotation, "thrift_spec"):
        return WireType(TType.STRUCT, annotation)
    raise TypeError(f"{annotation!r} has no Thrift type")


def parse_field(name: str, annotation: Any, *, required: bool) -> Field:
    """Parse a field's annotation: ``Annotated[TYPE, NUMBER]`` or ``Annotated[TYPE | None, NUMBER, ENUM]``."""
    declared, metadata = annotation.__origin__, annotation.__metadata__
    if declared is int:  # Annotated flattens: Annotated[i32, 4] is Annotated[int, TType.I32, 4]
        declared, metadata = Annotated[declared, metadata[0]], metadata[1:]
    elif typing.get_origin(declared) in {typing.Union, types.UnionType}:
        (declared,) = (part for part in typing.get_args(declared) if part is not types.NoneType)
    number, *enum = metadata
    return Field(number, name, parse_wire_type(declared), required, *enum)


_unresolved: list[type[Struct]] = []


@dataclass_transform(kw_only_default=True, eq_default=True)
class Struct:  # noqa: PLW1641 - a struct can change, so it has no hash
    """Base of all structs. Fields are keyword arguments; unset ones are None."""

    thrift_spec: ClassVar[tuple[Any, ...]] = ()
    fields: ClassVar[tuple[Field, ...]] = ()
    _names: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        """Register the class; ``resolve`` reads its annotations once everything that they name exists."""
        _unresolved.append(cls)

    def __init__(self, **values: Any) -> None:
        if not self._names.issuperset(values):
            unknown = sorted(values.keys() - self._names)
            raise TypeError(f"{type(self).__name__} has no field {', '.join(unknown)}")
        self.__dict__.update(values)

    def read(self, protocol: Any) -> None:
        """Fill this struct from a Thrift protocol, in C if the protocol supports it."""
        # SLF001: Thrift's own convention between generated code and protocols
        if protocol._fast_decode is not None and isinstance(protocol.trans, CReadableTransport):  # noqa: SLF001
            protocol._fast_decode(self, protocol, [type(self), self.thrift_spec])  # noqa: SLF001 - likewise
        else:
            protocol.readStruct(self, self.thrift_spec)

    def write(self, protocol: Any) -> None:
        """Write this struct to a Thrift protocol, in C if the protocol supports it."""
        # SLF001: Thrift's own convention between generated code and protocols
        if protocol._fast_encode is not None:  # noqa: SLF001
            protocol.trans.write(protocol._fast_encode(self, [type(self), self.thrift_spec]))  # noqa: SLF001
        else:
            protocol.writeStruct(self, self.thrift_spec)

    def set_fields(self) -> dict[str, Any]:
        """Return the fields that have a value, ordered by number."""
        mine = self.__dict__
        return {f.name: mine[f.name] for f in self.fields if mine.get(f.name) is not None}

    def copy(self) -> Self:
        """Return a deep copy."""
        twin = type(self)()
        twin.__dict__.update({name: _copy(value) for name, value in self.__dict__.items()})
        return twin

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.set_fields() == other.set_fields()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in self.set_fields().items())})"


def _copy(value: Any) -> Any:
    if isinstance(value, Struct):
        return value.copy()
    if isinstance(value, list):
        return [_copy(item) for item in value]
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, set):
        return set(value)
    return value


def resolve() -> None:
    """Read the annotations of all structs declared since the last call;
    every module of structs ends with this call.

    Structs of one module may refer to each other in cycles (a materialized view's metadata contains tables),
    so annotations cannot be read class by class.
    """
    structs = _unresolved[:]
    _unresolved.clear()
    for cls in structs:
        _read_annotations(cls)
    fix_spec(structs)


def declare(module: str, name: str, fields: Mapping[str, Any]) -> type[Struct]:
    """Return a new struct class for ``module``;
    ``fields`` maps names to the annotations of a declared struct.
    """
    optional = {
        field: None
        for field, annotation in fields.items()
        if types.NoneType in typing.get_args(annotation.__origin__)
    }
    return type(name, (Struct,), {"__annotations__": dict(fields), "__module__": module, **optional})


def _read_annotations(cls: type[Struct]) -> None:
    hints = typing.get_type_hints(cls, include_extras=True)
    annotated = {name: hint for name, hint in hints.items() if typing.get_origin(hint) is Annotated}
    fields = [parse_field(name, hint, required=not hasattr(cls, name)) for name, hint in annotated.items()]
    cls.fields = tuple(sorted(fields, key=lambda f: f.number))
    cls._names = frozenset(annotated)
    for name in annotated:
        setattr(cls, name, None)
    cls.thrift_spec = _thrift_spec(cls.fields)


def _thrift_spec(fields: tuple[Field, ...]) -> tuple[Any, ...]:
    if not fields:
        return ()
    spec: list[Any] = [None] * (fields[-1].number + 1)
    for f in fields:
        spec[f.number] = (f.number, f.wire.ttype, f.name, f.wire.thrift_arguments(), None)
    return tuple(spec)
