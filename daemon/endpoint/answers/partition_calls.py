"""The partition calls that the index answers: their arguments, their lookups, and the forms of their answers.

=============================== ==============================================
form of an answer               calls
=============================== ==============================================
a list of partitions            the calls of Hive 2 and 3
a struct with that list         their successors in Hive 4, which end in _req
the same, and "all match"       get_partitions_by_expr
groups, and "all match"         get_partitions_spec_by_expr
a list of names                 ..names, ..names_ps, get_partition_names_req
one partition                   get_partition..
a number                        get_num_partitions_by_filter
=============================== ==============================================
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from thrift.Thrift import TType

from daemon.endpoint.answers import lookups
from daemon.endpoint.answers.arguments import Arguments, Role, Shape, positional, request
from daemon.endpoint.answers.server_rules import ServerRules
from daemon.endpoint.answers.table_access import TableView
from daemon.endpoint.protocol.wire import STOP


Lookup = Callable[["TableView", Arguments, "ServerRules"], lookups.CheckedSelection]


class Content(Enum):
    """The content of an answer: names, partitions or a count."""

    PARTITIONS = auto()
    PARTITION = auto()
    SPECS = auto()
    """Partitions, grouped by their storage descriptors."""
    NAMES = auto()
    COUNT = auto()


@dataclass(frozen=True, slots=True)
class PartitionCall:
    """How to answer one call."""

    shape: Shape
    find: Lookup
    content: Content
    is_wrapped: bool = False
    """Whether the answer is field 1 of a struct."""
    is_certain: bool = False
    """Whether field 2 of that struct says that all partitions match."""

    def frame(self, count: int, pieces: Sequence[bytes]) -> bytes:
        """Return the body of an answer with ``count`` elements, whose bytes are ``pieces``."""
        match self.content:
            case Content.COUNT:
                return _field(TType.I32, 0) + struct.pack(">i", count) + STOP
            case Content.PARTITION:
                kind, start = TType.STRUCT, b""
            case Content.PARTITIONS | Content.SPECS:
                kind, start = TType.LIST, struct.pack(">bi", TType.STRUCT, count)
            case Content.NAMES:
                kind, start = TType.LIST, struct.pack(">bi", TType.STRING, count)
        if self.is_wrapped:
            certain = _field(TType.BOOL, 2) + b"\x00" if self.is_certain else b""
            return b"".join((_field(TType.STRUCT, 0), _field(kind, 1), start, *pieces, certain, STOP, STOP))
        return b"".join((_field(kind, 0), start, *pieces, STOP))


def _field(kind: int, number: int) -> bytes:
    return struct.pack(">bh", kind, number)


_TABLE: Final = (Role.DB, Role.TABLE)
_AUTH: Final = (Role.USER, Role.IGNORED)
_SKIPPED: Final = (Role.FALSE, Role.EMPTY, Role.EMPTY)
"""skipColumnSchemaForPartition, includeParamKeyPattern, excludeParamKeyPattern: parts of partitions that Hive
4 can leave out."""
_IN_CATALOG: Final = {1: Role.CATALOG, 2: Role.DB, 3: Role.TABLE}
_WRITE_IDS: Final = (Role.IGNORED, Role.IGNORED)
"""validWriteIdList and the table's id."""


def _numbered(first: int, *roles: Role) -> dict[int, Role]:
    return dict(enumerate(roles, first))


_BY_FILTER_REQ: Final = request(
    {**_IN_CATALOG, **_numbered(4, Role.FILTER, Role.LIMIT, *_SKIPPED)}, Role.CATALOG
)
_BY_NAMES_REQ: Final = request(
    _numbered(
        1,
        *(*_TABLE, Role.NAMES, Role.FALSE, Role.CAPABILITIES, Role.IGNORED, Role.IGNORED, Role.IGNORED),
        *(Role.FALSE, Role.IGNORED, *_SKIPPED),
    ),
    Role.NAMES,
)
_GET_ALL_REQ: Final = request({**_IN_CATALOG, **_numbered(4, Role.LIMIT, *_WRITE_IDS, *_SKIPPED)})
_GET_ONE_REQ: Final = request({**_IN_CATALOG, **_numbered(4, Role.VALUES, *_WRITE_IDS)}, Role.VALUES)
_NAMES_PS_REQ: Final = request(
    {**_IN_CATALOG, **_numbered(4, Role.VALUES, Role.LIMIT, *_WRITE_IDS)}, Role.VALUES
)
_PS_AUTH_REQ: Final = request(
    {**_IN_CATALOG, **_numbered(4, Role.VALUES, Role.LIMIT, *_AUTH, *_WRITE_IDS, *_SKIPPED)}
)
_BY_EXPR_REQ: Final = request(
    _numbered(
        1,
        *(*_TABLE, Role.EXPRESSION, Role.DEFAULT_PARTITION, Role.LIMIT, Role.CATALOG, Role.EMPTY),
        *(*_WRITE_IDS, *_SKIPPED),
    ),
    Role.EXPRESSION,
)
_LIST: Final = Content.PARTITIONS
_ONE: Final = Content.PARTITION
_NAMES: Final = Content.NAMES

CALLS: Final = {
    "get_partitions_by_filter": PartitionCall(
        positional(*_TABLE, Role.FILTER, Role.LIMIT), lookups.find_by_filter, _LIST
    ),
    "get_partitions_by_filter_req": PartitionCall(_BY_FILTER_REQ, lookups.find_by_filter, _LIST),
    "get_num_partitions_by_filter": PartitionCall(
        positional(*_TABLE, Role.FILTER), lookups.find_by_filter, Content.COUNT
    ),
    "get_partitions_by_expr": PartitionCall(
        _BY_EXPR_REQ, lookups.find_by_expr, _LIST, is_wrapped=True, is_certain=True
    ),
    "get_partitions_spec_by_expr": PartitionCall(
        _BY_EXPR_REQ, lookups.find_by_expr, Content.SPECS, is_wrapped=True, is_certain=True
    ),
    "get_partition_names_req": PartitionCall(_BY_EXPR_REQ, lookups.find_by_expr, _NAMES),
    "get_partition_names": PartitionCall(positional(*_TABLE, Role.LIMIT), lookups.find_all, _NAMES),
    "get_partition_names_ps": PartitionCall(
        positional(*_TABLE, Role.VALUES, Role.LIMIT), lookups.find_names_ps, _NAMES
    ),
    "get_partition_names_ps_req": PartitionCall(
        _NAMES_PS_REQ, lookups.find_names_ps, _NAMES, is_wrapped=True
    ),
    "get_partitions_by_names": PartitionCall(positional(*_TABLE, Role.NAMES), lookups.find_by_names, _LIST),
    "get_partitions_by_names_req": PartitionCall(
        _BY_NAMES_REQ, lookups.find_by_names, _LIST, is_wrapped=True
    ),
    "get_partitions_ps": PartitionCall(positional(*_TABLE, Role.VALUES, Role.LIMIT), lookups.find_ps, _LIST),
    "get_partitions_ps_with_auth": PartitionCall(
        positional(*_TABLE, Role.VALUES, Role.LIMIT, *_AUTH), lookups.find_ps, _LIST
    ),
    "get_partitions_ps_with_auth_req": PartitionCall(
        _PS_AUTH_REQ, lookups.find_ps_or_all, _LIST, is_wrapped=True
    ),
    "get_partition": PartitionCall(positional(*_TABLE, Role.VALUES), lookups.find_by_values, _ONE),
    "get_partition_req": PartitionCall(_GET_ONE_REQ, lookups.find_by_values, _ONE, is_wrapped=True),
    "get_partition_with_auth": PartitionCall(
        positional(*_TABLE, Role.VALUES, *_AUTH), lookups.find_by_values, _ONE
    ),
    "get_partition_by_name": PartitionCall(positional(*_TABLE, Role.NAME), lookups.find_by_name, _ONE),
    "get_partitions": PartitionCall(positional(*_TABLE, Role.LIMIT), lookups.find_all, _LIST),
    "get_partitions_with_auth": PartitionCall(
        positional(*_TABLE, Role.LIMIT, *_AUTH), lookups.find_all, _LIST
    ),
    "get_partitions_req": PartitionCall(_GET_ALL_REQ, lookups.find_all, _LIST, is_wrapped=True),
}
"""Every call that the index answers."""
CALLS_OF_HIVE_4: Final = frozenset({name for name in CALLS if name.endswith("_req")}) | {
    "get_partitions_spec_by_expr"
}
"""The calls that servers before Hive 4 do not have."""
