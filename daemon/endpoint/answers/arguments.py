"""The arguments of the partition calls, in the forms of Hive 2.3 to 4.2.

Each call has a map from field numbers to roles. The endpoint forwards a call with an undeclared field, or
with a value that the index does not support (statistics, a selection of parameters). So it never ignores a
field of a future version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from thrift.Thrift import TType

from daemon.endpoint.answers.table_access import NotAnswered, Reason
from daemon.endpoint.protocol.wire import Value, read_fields
from daemon.endpoint.successors import split_catalog
from state.partitions.filters.hive_expressions import Expression


CATALOG: Final = "hive"
"""The catalog that an index follows."""


class Role(Enum):
    """Meaning of a field of the arguments."""

    CATALOG = auto()
    DB = auto()
    TABLE = auto()
    FILTER = auto()
    VALUES = auto()
    """Values in the order of the partition columns."""
    NAME = auto()
    NAMES = auto()
    EXPRESSION = auto()
    DEFAULT_PARTITION = auto()
    LIMIT = auto()
    USER = auto()
    CAPABILITIES = auto()
    """Capabilities of the client."""
    IGNORED = auto()
    """Has no effect on the answer, as compared with Hive 4.2: groups without a user, valid write ids, a
    table's id."""
    FALSE = auto()
    """The index answers only if the value is false."""
    EMPTY = auto()
    """The index answers only if the text is empty."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of a call's arguments: the roles of its fields."""

    roles: Mapping[int, Role]
    is_request: bool
    """Whether the fields are in one request struct, whose absent fields have defaults."""
    required: frozenset[Role]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The arguments of one call; None for those that the call does not have or the client did not send."""

    db: str
    table: str
    names_catalog: bool = False
    """Whether the client sent the database as ``@catalog#database``."""
    filter: str | None = None
    values: list[str] | None = None
    name: str | None = None
    names: list[str] | None = None
    expression: bytes | None = None
    tree: Expression | None = None
    """``expression``, after reading."""
    default_partition: str | None = None
    limit: int = -1
    user: str | None = None
    capabilities: list[str] | None = None


def positional(*roles: Role) -> Shape:
    """Return the form of a call with these arguments. Only a filter, a user and groups are optional."""
    optional = {Role.FILTER, Role.USER, Role.IGNORED}
    return Shape(dict(enumerate(roles, 1)), is_request=False, required=frozenset(roles) - optional)


def request(roles: Mapping[int, Role], *required: Role) -> Shape:
    """Return the form of a call with one request struct."""
    return Shape(roles, is_request=True, required=frozenset({Role.DB, Role.TABLE, *required}))


def read_arguments(shape: Shape, body: bytes) -> Arguments:
    """Read the arguments of a call; raise NotAnswered, BadInput."""
    fields = read_fields(body)
    if shape.is_request:
        if fields.keys() != {1} or fields[1].kind != TType.STRUCT:
            raise NotAnswered(Reason.ARGUMENTS)
        fields = read_fields(fields[1].data)
    values: dict[Role, Any] = {}
    for number, value in fields.items():
        role = shape.roles.get(number)
        if role is None:
            raise NotAnswered(Reason.ARGUMENTS)
        values[role] = _READERS[role](value)
    if not shape.required <= values.keys():
        raise NotAnswered(Reason.ARGUMENTS)
    return _make(values)


def _make(values: dict[Role, Any]) -> Arguments:
    catalog, db = split_catalog(values[Role.DB])
    for named in (catalog, values.get(Role.CATALOG)):
        if named is not None and named.lower() != CATALOG:
            raise NotAnswered(Reason.ARGUMENTS)
    limit = values.get(Role.LIMIT, -1)
    if limit == 0 or limit < -1:
        raise NotAnswered(Reason.ARGUMENTS)  # the meaning depends on the version
    return Arguments(
        db=db,
        table=values[Role.TABLE],
        names_catalog=catalog is not None,
        filter=values.get(Role.FILTER),
        values=values.get(Role.VALUES),
        name=values.get(Role.NAME),
        names=values.get(Role.NAMES),
        expression=values.get(Role.EXPRESSION),
        default_partition=values.get(Role.DEFAULT_PARTITION),
        limit=limit,
        user=values.get(Role.USER),
        capabilities=values.get(Role.CAPABILITIES),
    )


def _read_text(value: Value) -> str:
    return value.to_text()


def _read_bytes(value: Value) -> bytes:
    if value.kind != TType.STRING:
        raise NotAnswered(Reason.ARGUMENTS)
    return value.data[4:]


def _read_texts(value: Value) -> list[str]:
    kind, count = struct.unpack_from(">bi", value.data)
    if value.kind != TType.LIST or (kind != TType.STRING and count):
        raise NotAnswered(Reason.ARGUMENTS)
    texts, at = [], 5
    for _ in range(count):
        end = at + 4 + int.from_bytes(value.data[at : at + 4])
        texts.append(value.data[at + 4 : end].decode())
        at = end
    return texts


def _read_limit(value: Value) -> int:
    if value.kind not in {TType.I16, TType.I32}:
        raise NotAnswered(Reason.ARGUMENTS)
    return int.from_bytes(value.data, signed=True)


def _require_false(value: Value) -> None:
    if value != Value(TType.BOOL, b"\x00"):
        raise NotAnswered(Reason.ARGUMENTS)


def _require_empty(value: Value) -> None:
    if value != Value(TType.STRING, b"\x00" * 4):
        raise NotAnswered(Reason.ARGUMENTS)


_READERS: Final[Mapping[Role, Callable[[Value], Any]]] = {
    Role.CATALOG: _read_text,
    Role.DB: _read_text,
    Role.TABLE: _read_text,
    Role.FILTER: _read_text,
    Role.VALUES: _read_texts,
    Role.NAME: _read_text,
    Role.NAMES: _read_texts,
    Role.EXPRESSION: _read_bytes,
    Role.DEFAULT_PARTITION: _read_text,
    Role.LIMIT: _read_limit,
    Role.USER: _read_text,
    Role.CAPABILITIES: _read_texts,
    Role.IGNORED: lambda _: None,
    Role.FALSE: _require_false,
    Role.EMPTY: _require_empty,
}
