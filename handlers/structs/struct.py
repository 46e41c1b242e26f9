"""What a Thrift struct is here: a class whose annotated fields are its wire format.

::

    class FieldSchema(Struct):
        name: Annotated[str | None, 1] = None
        type: Annotated[str | None, 2] = None

Why not the generated classes of ``hmsclient``: they know the fields of Hive 2.x only, so that reading a Hive 4 table and
writing it back would lose the write id, the owner's type and the capabilities without a word; and they have no types.
These are the superset of all generations: a server skips fields that it does not know, and a field that nobody set is None
and not sent, so that the server's own default holds.

Promises: read and written by thrift's binary protocols, plain and accelerated (``thrift_spec`` has thrift's own form);
equal when all fields are equal; ``copy()`` is deep. Field names are those of Hive's interface, so that they can be found there.
"""

from __future__ import annotations

import typing
from typing import Annotated, Any, ClassVar, Self, dataclass_transform

from thrift.transport.TTransport import CReadableTransport
from thrift.TRecursive import fix_spec

from handlers.structs.wire import Field, field_of


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
