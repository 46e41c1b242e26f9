"""Compares two answers of the metastore's protocol: equal if they have the same fields, in any order of maps and sets.

Answers are compared as generic values, without their declarations, so no field can be forgotten. ``UNORDERED`` calls are those for which
a metastore defines no order: its SQL has no ORDER BY, so rows come in the order of the index that the database chose. Hive 4.2 does
this for names, Hive 2.3 and 3.1 for partitions as well.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from thrift.Thrift import TType

from state.errors import BadInput


_NUMBERS: Final = {TType.BOOL: ">b", TType.BYTE: ">b", TType.I16: ">h", TType.I32: ">i", TType.I64: ">q"}
_DEPTH_MAX: Final = 64
UNORDERED_IN_HIVE_4: Final = frozenset({"get_partition_names_ps", "get_partition_names_ps_req"})
UNORDERED: Final = UNORDERED_IN_HIVE_4 | {"get_partitions_ps", "get_partitions_ps_with_auth"}


def is_same_answer(one: bytes, other: bytes, call: str = "") -> bool:
    """Whether two answers to ``call`` are equal; raise BadInput if one is malformed."""
    if one == other:
        return True
    ours, theirs = read_value(one), read_value(other)
    return bool(_sort_lists(ours) == _sort_lists(theirs) if call in UNORDERED else ours == theirs)


def _sort_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {number: (kind, _sort_lists(each)) for number, (kind, each) in value.items()}
    return sorted(value, key=repr) if isinstance(value, list) else value


def read_value(data: bytes) -> Any:
    """Return a struct as nested tuples and dictionaries; raise BadInput."""
    try:
        value, end = _read_struct(data, 0, 0)
    except (struct.error, IndexError, TypeError) as error:
        raise BadInput("the answer is not valid Thrift", reason=str(error)) from error
    if end != len(data):
        raise BadInput("the answer has bytes after its end", bytes=len(data) - end)
    return value


def _read_struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    found: dict[int, Any] = {}
    while kind := data[at]:
        (number,) = struct.unpack_from(">h", data, at + 1)
        value, at = _read(data, at + 3, kind, depth)
        found[number] = (kind, value)
    return found, at + 1


def _read(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if depth > _DEPTH_MAX:
        raise BadInput("the answer is nested too deeply")
    if kind in _NUMBERS:
        form = _NUMBERS[kind]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if kind == TType.DOUBLE:
        return data[at : at + 8], at + 8  # as bytes: NaN equals itself
    if kind == TType.STRING:
        (size,) = struct.unpack_from(">i", data, at)
        return _take(data, at + 4, size)
    if kind == TType.STRUCT:
        return _read_struct(data, at, depth + 1)
    if kind in {TType.LIST, TType.SET}:
        return _read_elements(data, at, kind, depth + 1)
    if kind == TType.MAP:
        return _read_map(data, at, depth + 1)
    raise BadInput("the answer has a value of an unknown type", type=kind)


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if not 0 <= size <= len(data) - at:
        raise BadInput("a text of the answer is longer than the answer", bytes=size)
    return data[at : at + size], at + size


def _read_elements(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    element, size = struct.unpack_from(">bi", data, at)
    at += 5
    values = []
    for _ in range(size):
        value, at = _read(data, at, element, depth)
        values.append(value)
    return (values if kind == TType.LIST else sorted(values, key=repr)), at


def _read_map(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    keys, values, size = struct.unpack_from(">bbi", data, at)
    at += 6
    pairs = []
    for _ in range(size):
        key, at = _read(data, at, keys, depth)
        value, at = _read(data, at, values, depth)
        pairs.append((key, value))
    return sorted(pairs, key=repr), at
