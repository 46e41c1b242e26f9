"""Hive's BinarySortable encoding: values as bytes that sort in the order of the values.

A field is a marker and a body. Fixed-width kinds are big-endian with the sign bit flipped. Texts end with a
terminator, with an escape inside. Every field is therefore prefix-free: concatenated fields compare with
``memcmp``. The order is ascending, with NULL first. The bytes are those of Hive's own BinarySortableSerDe
(the integration tests compare the two), with three deliberate differences:

- A text that is not a value of its type has its own marker, which sorts after the values. Hive makes it NULL.
- Minus zero becomes zero. Hive sorts it below zero, so ``x = 0`` would miss it.
- There is only one NaN.

Dates are proleptic Gregorian and timestamps are in UTC, as in Hive 3 and later. Hive 2 used the time zone of
the JVM.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from state.errors import StateCorrupt
from state.partitions.keys.column_types import DECIMAL_DIGITS_MAX, INTEGER_BYTES, ColumnType, TypeKind


class Instant(NamedTuple):
    """A point in time in UTC: whole seconds since 1970 and nanoseconds within the second."""

    seconds: int
    nanos: int


@dataclass(frozen=True, slots=True)
class Unconvertible:
    """A partition value whose text is not a value of its column's type."""

    text: str


Value = bool | int | float | Decimal | str | bytes | dt.date | Instant | Unconvertible | None


NULL: Final = b"\x00"
VALUE: Final = b"\x01"
UNCONVERTIBLE: Final = b"\x02"
END: Final = b"\x03"
"""Sorts after every field."""

_TERMINATED: Final = re.compile(rb"(?:[^\x00\x01]|\x01[\x01\x02])*\x00", re.DOTALL)
_DECIMAL: Final = re.compile(rb"\x00.{4}[^\xff]*\xff|[\x01\x02].{4}[^\x00]*\x00", re.DOTALL)
_ESCAPE: Final = re.compile(rb"\x01.", re.DOTALL)
_COMPLEMENT: Final = bytes(255 - byte for byte in range(256))
_EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_SECONDS_SIGN: Final = 1 << 55
_FLOATS: Final = {TypeKind.FLOAT: (struct.Struct(">f"), 4), TypeKind.DOUBLE: (struct.Struct(">d"), 8)}


def encode(kind: TypeKind, value: Value) -> bytes:
    """Return the field of a value; NULL is None.
    The value must fit the kind (``values.parse_value`` ensures it).
    """
    if value is None:
        return NULL
    if isinstance(value, Unconvertible):
        return UNCONVERTIBLE + terminate(value.text.encode(errors="surrogatepass"))
    return VALUE + _body(kind, value)


def decode(type_: ColumnType, field: bytes) -> Value:
    """Read a whole field; raise StateCorrupt if it is not a field of this type."""
    marker, body = field[:1], field[1:]
    try:
        if marker == UNCONVERTIBLE:
            return Unconvertible(unterminate(body).decode(errors="surrogatepass"))
        if marker == NULL and not body:
            return None
        if marker == VALUE:
            return _value(type_.kind, body)
    except (ValueError, ArithmeticError, struct.error) as error:
        raise StateCorrupt("a field of a partition key cannot be read", field=field.hex()[:80]) from error
    raise StateCorrupt("a field of a partition key has an unknown marker", field=field.hex()[:80])


def field_width(type_: ColumnType) -> int:
    """Return the length of the field of a value, marker included; 0 if it depends on the value."""
    width = _WIDTHS.get(type_.kind, 0)
    return width and width + 1


def field_length(type_: ColumnType, data: bytes) -> int | None:
    """Return the length of the whole field with which ``data`` begins;
    None if it begins with no whole field.
    """
    marker = data[:1]
    if marker == NULL:
        return 1
    width = field_width(type_)
    if marker == VALUE and width:
        return width if len(data) >= width else None
    form = _DECIMAL if marker == VALUE and type_.kind is TypeKind.DECIMAL else _TERMINATED
    match = form.match(data, 1) if marker in {VALUE, UNCONVERTIBLE} else None
    return None if match is None else match.end()


def terminate(data: bytes) -> bytes:
    """Return bytes as BinarySortable writes them: 00 and 01 escaped, 00 at the end."""
    return escape_bytes(data) + b"\x00"


def escape_bytes(data: bytes) -> bytes:
    """Escape 00 and 01; every text that begins with ``data`` begins with the result when escaped."""
    return data.replace(b"\x01", b"\x01\x02").replace(b"\x00", b"\x01\x01")


def unterminate(body: bytes) -> bytes:
    """Undo ``terminate``; raise ValueError for bytes that it cannot have written."""
    if not _TERMINATED.fullmatch(body):
        raise ValueError("a broken escape or end")
    return _ESCAPE.sub(lambda found: bytes([found[0][1] - 1]), body[:-1])


def _body(kind: TypeKind, value: Value) -> bytes:
    form = _BODIES.get(type(value))
    if form is not None:
        return form(value)
    if kind in _FLOATS:
        assert isinstance(value, int | float), value
        return _float(kind, float(value))
    assert isinstance(value, int), (kind, value)
    return _integer(value, INTEGER_BYTES[kind])


def _integer(value: int, size: int) -> bytes:
    return (value + (1 << (8 * size - 1))).to_bytes(size)


def _float(kind: TypeKind, value: float) -> bytes:
    form, size = _FLOATS[kind]
    plain = math.nan if math.isnan(value) else value + 0.0
    bits = int.from_bytes(form.pack(plain))
    sign = 1 << (8 * size - 1)
    return (bits ^ (2 * sign - 1) if bits & sign else bits | sign).to_bytes(size)


def _decimal(value: Decimal) -> bytes:
    """Encode sign, number of digits before the point, and digits; negatives invert everything but the
    sign.
    """
    sign, digits, places = _digits(value)
    if sign == 1:
        return b"\x02" + _integer(places, 4) + digits + b"\x00"
    if sign == 0:
        return b"\x01" + _integer(-1, 4) + b"0\x00"
    return b"\x00" + _integer(-places, 4) + (digits + b"\x00").translate(_COMPLEMENT)


def _digits(value: Decimal) -> tuple[int, bytes, int]:
    negative, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), value
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return 0, b"0", 0
    places = len(text) + exponent
    stripped = text.rstrip("0")
    # Hive keeps zeros before the point (10 is "10") and drops those after it (1.50 is "15").
    kept = stripped.ljust(max(places, len(stripped)), "0")
    return (-1 if negative else 1), kept.encode(), places


_BODIES: Final[dict[type, Callable[[Any], bytes]]] = {
    str: lambda value: terminate(value.encode(errors="surrogatepass")),
    bytes: terminate,
    bool: lambda value: b"\x02" if value else b"\x01",
    Decimal: _decimal,
    Instant: lambda value: (value.seconds + _SECONDS_SIGN).to_bytes(7) + value.nanos.to_bytes(4),
    dt.date: lambda value: _integer(value.toordinal() - _EPOCH_DAY, 4),
}


def _value(kind: TypeKind, body: bytes) -> Value:
    if kind in {TypeKind.STRING, TypeKind.VARCHAR, TypeKind.CHAR, TypeKind.OTHER}:
        return unterminate(body).decode(errors="surrogatepass")
    if kind is TypeKind.BINARY:
        return unterminate(body)
    if kind is TypeKind.DECIMAL:
        return _read_decimal(body)
    if len(body) != _WIDTHS[kind]:
        raise ValueError("another width")
    return _read_fixed(kind, body)


_WIDTHS: Final = {
    **INTEGER_BYTES,
    TypeKind.BOOLEAN: 1,
    TypeKind.FLOAT: 4,
    TypeKind.DOUBLE: 8,
    TypeKind.DATE: 4,
    TypeKind.TIMESTAMP: 11,
}


def _read_fixed(kind: TypeKind, body: bytes) -> Value:
    if kind is TypeKind.BOOLEAN:
        return {b"\x01": False, b"\x02": True}[body] if body in {b"\x01", b"\x02"} else _refuse()
    if kind is TypeKind.TIMESTAMP:
        return Instant(int.from_bytes(body[:7]) - _SECONDS_SIGN, int.from_bytes(body[7:]))
    if kind in _FLOATS:
        form, size = _FLOATS[kind]
        sign, bits = 1 << (8 * size - 1), int.from_bytes(body)
        plain = bits ^ sign if bits & sign else bits ^ (2 * sign - 1)
        value: float = form.unpack(plain.to_bytes(size))[0]
        return value
    number = int.from_bytes(body) - (1 << (8 * len(body) - 1))
    return dt.date.fromordinal(number + _EPOCH_DAY) if kind is TypeKind.DATE else number


def _read_decimal(body: bytes) -> Decimal:
    if len(body) < 7 or body[0] > 2:
        _refuse()
    places = int.from_bytes(body[1:5]) - (1 << 31)
    digits = body[5:]
    if body[0] == 0:
        places, digits = -places, digits.translate(_COMPLEMENT)
    if digits[-1:] != b"\x00" or not digits[:-1].isdigit():
        _refuse()
    if len(digits) > DECIMAL_DIGITS_MAX + 1 or abs(places) > DECIMAL_DIGITS_MAX:
        _refuse()
    if body[0] == 1:
        return Decimal(0)
    number = tuple(byte - 48 for byte in digits[:-1])
    return Decimal((int(body[0] == 0), number, places - len(number)))


def _refuse() -> Value:
    raise ValueError("not a body of this kind")
