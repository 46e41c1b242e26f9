"""Hypothesis strategies for structs of any class, built from their declared fields."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st
from thrift.Thrift import TType

from handlers.structs.struct import WireType


_INTEGERS = {TType.BYTE: 8, TType.I16: 16, TType.I32: 32, TType.I64: 64}
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def any_struct(cls: Any, depth: int = 4) -> st.SearchStrategy[Any]:
    """Return a strategy for values of ``cls``; optional fields may be unset, and are below ``depth``
    levels."""
    return _struct(cls, depth)


@cache
def _struct(cls: Any, depth: int) -> st.SearchStrategy[Any]:
    required = {f.name: _value(f.wire, depth) for f in cls.fields if f.required}
    optional = {f.name: _value(f.wire, depth) for f in cls.fields if not f.required and depth > 0}
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: cls(**values))


def _value(wire: WireType, depth: int) -> st.SearchStrategy[Any]:
    if wire.is_struct:
        return st.deferred(lambda: _struct(wire.python, depth - 1))
    if wire.ttype == TType.MAP:
        key, item = (_value(element, depth - 1) for element in wire.elements)
        return st.dictionaries(key, item, max_size=3)
    if wire.elements:
        items = st.lists(_value(wire.elements[0], depth - 1), max_size=3)
        return items.map(wire.python) if wire.python is not list else items
    return _scalar(wire)


def _scalar(wire: WireType) -> st.SearchStrategy[Any]:
    if wire.ttype in _INTEGERS:
        bits = _INTEGERS[wire.ttype]
        return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    if wire.is_binary:
        return st.binary(max_size=9)
    if wire.ttype == TType.STRING:
        return _TEXT
    return st.booleans() if wire.ttype == TType.BOOL else st.floats(allow_nan=False, allow_infinity=False)
