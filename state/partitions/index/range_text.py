"""Ranges of keys and conditions as text in the filter language: ``ds >= '2024-01-01' and ds < '2024-01-02'``.

A bound of a range is a sequence of whole fields and, at its end, an edge: the beginning of a field, or the
first bytes after one. Fields are prefix-free, so the bytes alone give both. The text of a range selects
exactly the keys of the range. The filter language has no words for two of them, and neither occurs in a text
column: ``hr is null``, and ``hr is a value of int`` (partition values are texts, which may not be values of
the column's type).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple

from state.errors import StateCorrupt
from state.partitions.filters.intervals import Intervals, after
from state.partitions.filters.like_pattern import escape_pattern
from state.partitions.keys.binary_sortable import (
    END,
    NULL,
    UNCONVERTIBLE,
    VALUE,
    Instant,
    Unconvertible,
    Value,
    decode,
    field_length,
    field_width,
    unterminate,
)
from state.partitions.keys.column_types import PartitionColumn, TypeKind
from state.partitions.keys.values import format_instant


SHOWN_MAX: Final = 8
ALL: Final = "every partition"
NONE: Final = "no partition"
_is_plain: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_WITH_NEIGHBOURS: Final = frozenset({TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.TIMESTAMP})
"""Kinds whose next value is longer to write: ``<= '1.5'`` instead of ``< '1.5000000000000002'``."""


class _Edge(NamedTuple):
    """A bound within one column: a value, or the start of a text, or the first bytes after either."""

    text: str
    is_after: bool
    prefix: str | None = None


def describe_range(start: bytes, end: bytes | None, columns: Sequence[PartitionColumn]) -> str:
    """Return a range of keys as text; ``columns`` are those of the key's fields, in their order; a posting
    has its own column twice.
    """
    lows, low_edge = _split(start, columns)
    highs, high_edge = ([], b"") if end is None else _split(end, columns)
    if end is not None and lows and not low_edge and end == after(start):
        return _join_equal(lows, columns)
    shared = 0
    while shared < min(len(lows), len(highs)) and lows[shared] == highs[shared]:
        shared += 1
    low, high = (
        [*lows[shared:], *([low_edge] if low_edge else [])],
        [*highs[shared:], *([high_edge] if high_edge else [])],
    )
    rest = columns[shared:]
    if len(low) <= 1 and len(high) <= 1:
        tail = (
            describe_interval(low[0] if low else b"", high[0] if high else b"", rest[0])
            if low or high
            else ""
        )
    else:
        # Each side excludes the values that the other one would have to name: NULL, and texts that are not
        # values.
        top = UNCONVERTIBLE if high and high[0] < UNCONVERTIBLE else b""
        bottom = VALUE if low and low[0] >= VALUE else b""
        tail = " and ".join(filter(None, [_after_all(low, rest, top), _before_all(high, rest, bottom)]))
    return " and ".join(filter(None, [_join_equal(lows[:shared], columns), tail])) or ALL


def describe_intervals(intervals: Intervals, column: PartitionColumn) -> str:
    """Return the allowed set of a column's field as text; "" if unlimited."""
    if not intervals:
        return NONE
    excluded = _find_excluded(intervals)
    if excluded:
        return _list_values(column, excluded, "!=", "not in")
    points = [one.lo for one in intervals if one.is_point and _is_field(one.lo, column) and one.lo != NULL]
    others = [one for one in intervals if not (one.is_point and _is_field(one.lo, column) and one.lo != NULL)]
    texts = [_list_values(column, points, "=", "in")] if points else []
    texts += [describe_interval(one.lo, one.hi, column) for one in others[:SHOWN_MAX]]
    if len(others) > SHOWN_MAX:
        texts.append(f"… {len(others) - SHOWN_MAX} more")
    if "" in texts:
        return ""
    return texts[0] if len(texts) == 1 else "(" + " or ".join(texts) + ")"


def describe_interval(low: bytes, high: bytes, column: PartitionColumn) -> str:
    """Return ``low <= field < high`` as text, "" if the column is unlimited; empty bounds are open."""
    single = _describe_single(low, column) if low and high == after(low) else None
    if single is not None:
        return single
    lower = "" if low in {b"", NULL, VALUE} or low >= UNCONVERTIBLE else _after(low, column)
    upper = "" if high in {b"", UNCONVERTIBLE, END} else _before(high, column)
    if column.type.is_text or (lower and upper):
        return " and ".join(filter(None, [lower, upper]))
    return _describe_open(low, high, lower or upper, column)


def _describe_single(low: bytes, column: PartitionColumn) -> str | None:
    """Return the condition for one value, or for all texts with one beginning; None if the bytes are
    neither.
    """
    if _is_field(low, column):
        return _equal(low, column)
    prefix = None if low == VALUE else _read_prefix(low, column)
    return None if prefix is None else f"{quote_name(column.name)} like {quote(escape_pattern(prefix) + '%')}"


def _describe_open(low: bytes, high: bytes, bound: str, column: PartitionColumn) -> str:
    """Return a set of a typed column that is open below or above:
    NULL sorts before all values, texts that are not values after them.
    """
    name = quote_name(column.name)
    has_null, has_others = low < VALUE, high != UNCONVERTIBLE and (not bound or low > VALUE)
    if not bound and low <= VALUE and has_others:
        return "" if has_null else f"{name} is not null"
    parts = [f"{name} is null"] if has_null else []
    parts += [bound] if bound else [f"{name} is a value of {column.declared}"] if low <= VALUE else []
    parts += [f"{name} is not a value of {column.declared}"] if has_others else []
    return parts[0] if len(parts) == 1 else f"({' or '.join(parts)})"


def quote(text: str) -> str:
    """Write a text as a constant, with characters that a terminal cannot show escaped."""
    shown = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
    if "'" not in shown:
        return f"'{shown}'"
    return f'"{shown}"' if '"' not in shown else "'" + shown.replace("'", "''") + "'"


def _split(key: bytes, columns: Sequence[PartitionColumn]) -> tuple[list[bytes], bytes]:
    """Return the whole fields at the beginning of a bound, and the edge after them."""
    fields: list[bytes] = []
    for column in columns:
        length = field_length(column.type, key)
        if length is None:
            break
        fields.append(key[:length])
        key = key[length:]
    return fields, key


def _join_equal(fields: Sequence[bytes], columns: Sequence[PartitionColumn]) -> str:
    texts = [_equal(field, column) for field, column in zip(fields, columns, strict=False)]
    return " and ".join(dict.fromkeys(texts))


def _equal(field: bytes, column: PartitionColumn) -> str:
    name = quote_name(column.name)
    return f"{name} is null" if field == NULL else f"{name} = {_literal(field, column)}"


def _list_values(column: PartitionColumn, fields: Sequence[bytes], single: str, several: str) -> str:
    name = quote_name(column.name)
    if len(fields) == 1:
        return f"{name} {single} {_literal(fields[0], column)}"
    shown = [_literal(field, column) for field in fields[:SHOWN_MAX]]
    more = [f"… {len(fields) - SHOWN_MAX} more"] if len(fields) > SHOWN_MAX else []
    return f"{name} {several} ({', '.join([*shown, *more])})"


def _find_excluded(intervals: Intervals) -> list[bytes]:
    """Return the values that the intervals leave out if they contain all other values; otherwise an empty
    list.
    """
    if len(intervals) < 2 or intervals[0].lo != VALUE or intervals[-1].hi != UNCONVERTIBLE:
        return []
    gaps = [(one.hi, two.lo) for one, two in pairwise(intervals)]
    return [low for low, _ in gaps] if all(high == after(low) for low, high in gaps) else []


def _after_all(bounds: Sequence[bytes], columns: Sequence[PartitionColumn], top: bytes = b"") -> str:
    """Return "the fields are at or after these bounds" as text; "" if that is always so."""
    if not bounds:
        return ""
    first, column = bounds[0], columns[0]
    if len(bounds) == 1:
        return describe_interval(first, top, column)
    rest = _after_all(bounds[1:], columns[1:])
    larger = describe_interval(after(first), top, column)
    return f"({larger} or {_equal(first, column)}{f' and {rest}' if rest else ''})"


def _before_all(bounds: Sequence[bytes], columns: Sequence[PartitionColumn], bottom: bytes = b"") -> str:
    """Return "the fields are before these bounds" as text; "" if that is always so."""
    if not bounds:
        return ""
    first, column = bounds[0], columns[0]
    if len(bounds) == 1:
        return describe_interval(bottom, first, column)
    rest = _before_all(bounds[1:], columns[1:])
    smaller = describe_interval(bottom, first, column)
    return f"({smaller} or {_equal(first, column)}{f' and {rest}' if rest else ''})"


def _after(low: bytes, column: PartitionColumn) -> str:
    name, edge = quote_name(column.name), _read_edge(low, column)
    if edge.prefix is not None:
        return f"{name} > {edge.text} and not {name} like {quote(escape_pattern(edge.prefix) + '%')}"
    return f"{name} {'>' if edge.is_after else '>='} {edge.text}"


def _before(high: bytes, column: PartitionColumn) -> str:
    name, edge = quote_name(column.name), _read_edge(high, column)
    if edge.prefix is not None:
        return f"({name} <= {edge.text} or {name} like {quote(escape_pattern(edge.prefix) + '%')})"
    return f"{name} {'<=' if edge.is_after else '<'} {edge.text}"


def _read_edge(edge: bytes, column: PartitionColumn) -> _Edge:
    at = _read_first([edge, edge.ljust(field_width(column.type), b"\x00")], column)
    before = edge[:-1] + bytes((edge[-1] - 1,)) if edge[-1] else edge
    filled = [before + b"\xff" * count for count in range(max(2, field_width(column.type) - len(before) + 1))]
    below = _read_first(filled, column)
    if at is not None and below is not None and column.type.kind in _WITH_NEIGHBOURS:
        at = at if len(at) <= len(below) and at != "'NaN'" else None
    if at is not None:
        return _Edge(at, is_after=False)
    if below is not None:
        return _Edge(below, is_after=True)
    prefix = _read_prefix(edge, column)
    if prefix is not None:
        return _Edge(quote(prefix), is_after=False)
    prefix = _read_prefix(before, column)
    return (
        _Edge(f"0x{edge.hex()}", is_after=False)
        if prefix is None
        else _Edge(quote(prefix), is_after=True, prefix=prefix)
    )


def _read_first(fields: Sequence[bytes], column: PartitionColumn) -> str | None:
    return next((_literal(field, column) for field in fields if _is_field(field, column)), None)


def _is_field(data: bytes, column: PartitionColumn) -> bool:
    try:
        decode(column.type, data)
    except StateCorrupt:
        return False
    return True


def _read_prefix(edge: bytes, column: PartitionColumn) -> str | None:
    """Return the text with which all fields from this edge on begin,
    None if it is not the beginning of a text.
    """
    if not column.type.is_text or edge[:1] != VALUE:
        return None
    try:
        return unterminate(edge[1:] + b"\x00").decode(errors="surrogatepass")
    except ValueError:
        return None


def _literal(field: bytes, column: PartitionColumn) -> str:
    value = decode(column.type, field)
    return str(value) if type(value) is int else quote(_format_value(value))


def _format_value(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(str(value), str(value))
    return _FORMS.get(type(value), str)(value)


_FORMS: Final[dict[type, Callable[[Any], str]]] = {
    Unconvertible: lambda value: value.text,
    Instant: format_instant,
    Decimal: lambda value: f"{value:f}",
    bytes: lambda value: value.decode(errors="backslashreplace"),
}


def quote_name(name: str) -> str:
    """Write the name of a column, in backquotes if it is not a plain name."""
    return name if _is_plain(name) else "`" + name.replace("`", "``") + "`"
