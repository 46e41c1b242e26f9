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
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Self, dataclass_transform

from thrift.Thrift import TType
from thrift.transport.TTransport import CReadableTransport
from thrift.TRecursive import fix_spec


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


_unresolved: list[type[Struct]] = []


@dataclass_transform(kw_only_default=True, eq_default=True)
class Struct:  # noqa: PLW1641 - a struct can change, so it has no hash
    """Base of all structs. Fields are keyword arguments; unset ones are None."""

    thrift_spec: ClassVar[tuple[Any, ...]] = ()
    fields: ClassVar[tuple[Field, ...]] = ()
    _names: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        """Remember the class; ``resolve`` reads its annotations when all that they name exist."""
        _unresolved.append(cls)

    def __init__(self, **values: Any) -> None:
        if not self._names.issuperset(values):
            unknown = sorted(values.keys() - self._names)
            raise TypeError(f"{type(self).__name__} has no field {', '.join(unknown)}")
        self.__dict__.update(values)

    def read(self, protocol: Any) -> None:
        """Fill this struct from a Thrift protocol, in C where the protocol can."""
        if protocol._fast_decode is not None and isinstance(protocol.trans, CReadableTransport):  # noqa: SLF001 - thrift's own convention between generated code and its protocols
            protocol._fast_decode(self, protocol, [type(self), self.thrift_spec])  # noqa: SLF001 - likewise
        else:
            protocol.readStruct(self, self.thrift_spec)

    def write(self, protocol: Any) -> None:
        """Write this struct to a Thrift protocol, in C where the protocol can."""
        if protocol._fast_encode is not None:  # noqa: SLF001 - thrift's own convention between generated code and its protocols
            protocol.trans.write(protocol._fast_encode(self, [type(self), self.thrift_spec]))  # noqa: SLF001 - likewise
        else:
            protocol.writeStruct(self, self.thrift_spec)

    def set_fields(self) -> dict[str, Any]:
        """Return the fields that have a value, in the order of their numbers."""
        mine = self.__dict__
        return {f.name: mine[f.name] for f in self.fields if mine.get(f.name) is not None}

    def copy(self) -> Self:
        """Return a deep copy."""
        twin = type(self)()
        twin.__dict__.update({name: _copied(value) for name, value in self.__dict__.items()})
        return twin

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.set_fields() == other.set_fields()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in self.set_fields().items())})"


def _copied(value: Any) -> Any:
    if isinstance(value, Struct):
        return value.copy()
    if isinstance(value, list):
        return [_copied(item) for item in value]
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, set):
        return set(value)
    return value


def resolve() -> None:
    """Read the annotations of every struct that was declared since the last call.

    Done once per group and not per class, since structs refer to each other in circles (a materialized view's metadata
    holds tables).
    """
    structs = _unresolved[:]
    _unresolved.clear()
    for cls in structs:
        _read_annotations(cls)
    fix_spec(structs)


def _read_annotations(cls: type[Struct]) -> None:
    hints = typing.get_type_hints(cls, include_extras=True)
    annotated = {name: hint for name, hint in hints.items() if typing.get_origin(hint) is Annotated}
    found = [field_of(name, hint, required=not hasattr(cls, name)) for name, hint in annotated.items()]
    cls.fields = tuple(sorted(found, key=lambda f: f.number))
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
