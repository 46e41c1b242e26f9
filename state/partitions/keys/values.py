"""Strict conversion of partition values: from text to a typed value and to the bytes of its field.

The metastore keeps partition values as text. Hive's own conversion loses information: ``abc`` becomes NULL as
an int, 300 becomes 44 as a tinyint, every text is a true boolean, 2020-02-30 becomes a day in March. A scan
over such keys would return partitions that the filter does not select. Here a text either is a value of its
type or is ``Unconvertible``: it keeps its position in the index, and only a lookup of the text itself finds
it.

The default partition (Hive's directory for NULL) is NULL in typed columns. In text columns it is an ordinary
text: the metastore compares it as text, and ``c < 'b'`` includes it (reference: partition-filters.md §1).
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Final

from state.partitions.keys.binary_sortable import Instant, Unconvertible, Value, encode
from state.partitions.keys.column_types import INTEGER_BYTES, TEXT_KINDS, ColumnType, TypeKind


DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""The value under which Hive stores rows whose partition column is NULL; the configuration of a metastore may
name another."""

CACHED_FIELDS_MAX: Final = 1 << 13
_ENCODERS_MAX: Final = 64

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]{1,60}(?:\.[0-9]{0,60})?|\.[0-9]{1,60})(?:[eE][+-]?[0-9]{1,3})?")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?")
_FLOAT_WORDS: Final = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2}) ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def parse_value(type_: ColumnType, text: str, default_partition: str = DEFAULT_PARTITION) -> Value:
    """Return the value of a partition's text:
    None for NULL, ``Unconvertible`` if it is not a value of the type.
    """
    if type_.is_text:
        return _text(type_, text)
    if text == default_partition:
        return None
    value = parse_typed(type_, text)
    return Unconvertible(text) if value is None else value


def encode_text(type_: ColumnType, text: str, default_partition: str = DEFAULT_PARTITION) -> bytes:
    """Return the field of a partition value."""
    return encode(type_.kind, parse_value(type_, text, default_partition))


@lru_cache(maxsize=_ENCODERS_MAX)
def field_encoder(type_: ColumnType, default_partition: str = DEFAULT_PARTITION) -> Callable[[str], bytes]:
    """Return ``encode_text`` for one type. Cached, because many partitions share few values.

    The text alone is the key of the cache. A key of several parts would be an object at which every garbage
    collection looks: for 65,000 of them, all threads stop for some hundredths of a second.
    """

    @lru_cache(maxsize=CACHED_FIELDS_MAX)
    def encode_field(text: str) -> bytes:
        return encode_text(type_, text, default_partition)

    return encode_field


def parse_typed(type_: ColumnType, text: str) -> Value:
    """Return the value of a text, None if it is not a value of this type."""
    return _READERS[type_.kind](type_, text)


def parse_date(text: str) -> dt.date | None:
    """Read ``yyyy-MM-dd``; None if it is not a day of the calendar."""
    return calendar_day(_DATE.fullmatch(text))


def calendar_day(form: re.Match[str] | None) -> dt.date | None:
    """Return the day of a matched year, month and day;
    None without a match, or if it is not a day of the calendar.
    """
    if form is None:
        return None
    try:
        return dt.date(int(form[1]), int(form[2]), int(form[3]))
    except ValueError:
        return None


def parse_timestamp(text: str) -> Instant | None:
    """Read ``yyyy-MM-dd HH:mm:ss[.fraction]`` in UTC; None if it is not a valid date and time."""
    form = _TIMESTAMP.fullmatch(text)
    if form is None:
        return None
    try:
        # Six numbers
        moment = dt.datetime(*(int(part) for part in form.groups()[:6]), tzinfo=dt.UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        return None
    passed = moment - _EPOCH
    return Instant(passed.days * 86_400 + passed.seconds, int((form[7] or "0").ljust(9, "0")))


def format_instant(value: Instant) -> str:
    """Write a timestamp as Hive does, with as many decimals as it has; ``parse_timestamp`` is the inverse."""
    text = (_EPOCH + dt.timedelta(seconds=value.seconds)).replace(tzinfo=None).isoformat(" ", "seconds")
    return f"{text}.{value.nanos:09}".rstrip("0") if value.nanos else text


def _integer(type_: ColumnType, text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    value, size = int(text), INTEGER_BYTES[type_.kind]
    return value if -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1) else None


def _decimal(type_: ColumnType, text: str) -> Decimal | None:
    """Read a decimal that fits without rounding."""
    if not _DECIMAL.fullmatch(text):
        return None
    value = Decimal(text)
    if not value:
        return Decimal(0)
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), text
    significant = "".join(map(str, digits)).lstrip("0")
    decimals = -(exponent + len(significant) - len(significant.rstrip("0")))
    before = len(significant) + exponent
    return value if decimals <= type_.scale and before <= type_.precision - type_.scale else None


def _float(type_: ColumnType, text: str) -> float | None:
    if text in _FLOAT_WORDS:
        return float(_FLOAT_WORDS[text])
    if not _FLOAT.fullmatch(text):
        return None
    value = float(text)
    if type_.kind is TypeKind.DOUBLE:
        return value
    try:
        single: float = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError:
        return None
    return single


def _text(type_: ColumnType, text: str) -> str:
    return text.rstrip(" ") if type_.kind is TypeKind.CHAR else text


_READERS: Final[dict[TypeKind, Callable[[ColumnType, str], Value]]] = {
    **dict.fromkeys(INTEGER_BYTES, _integer),
    **dict.fromkeys(TEXT_KINDS, _text),
    TypeKind.BOOLEAN: lambda _, text: {"true": True, "false": False}.get(text.lower()),
    TypeKind.DATE: lambda _, text: parse_date(text),
    TypeKind.TIMESTAMP: lambda _, text: parse_timestamp(text),
    TypeKind.DECIMAL: _decimal,
    TypeKind.FLOAT: _float,
    TypeKind.DOUBLE: _float,
    TypeKind.BINARY: lambda _, text: text.encode(errors="surrogatepass"),
}
