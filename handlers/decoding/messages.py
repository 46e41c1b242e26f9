"""The message of a notification:
from the text that the metastore stored to a JSON object, and back to strict JSON.

The metastore writes messages as plain JSON (``json-0.2``) or as base64 of gzip (``gzip(json-2.0)``, the
default of Hive 4), see ``org.apache.hadoop.hive.metastore.messaging``. Its writer leaves control characters
raw inside strings, which strict readers refuse. Reading therefore tries a fast strict parser first, and a
lenient one if that fails and the text is not long. Every returned object can become strict JSON again; values
that cannot (NaN, infinities, lone surrogates, integers beyond 64 bits, deep nesting) are malformed.

Of duplicate keys the last one counts, as in the metastore's own reader. The fast parser turns an integer
beyond 64 bits into a float; ``fields`` refuses it, because an id is never a float.

Anyone who may write to the topic must not be able to exhaust memory or stop the daemon. ``Limits`` bound the
content of a record. The defaults are several times the observed needs of large installations: only hostile or
broken input meets them. Exceeding a limit raises LimitExceeded, which names the value, the limit and the
remedy. The number of values is limited before a text is parsed (``handlers.structs.json_limits``).
"""

from __future__ import annotations

import binascii
import json
import math
import zlib
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import orjson

from handlers.structs.json_limits import check_size
from state.errors import LimitExceeded, MalformedEvent


JsonObject = dict[str, Any]

LENIENT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Longest text for the lenient parser, which needs several times as much memory as the strict one."""
_GZIP_FORMATS: Final = frozenset({"gzip(json-2.0)", "gzip"})
_PLAIN_FORMATS: Final = frozenset({"json-0.2", "json-2.0", "json"})
_GZIP_IN_BASE64: Final = "H4sI"
_GZIP_WINDOW: Final = 31  # 15 bits of window, with a mandatory gzip header


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest accepted input of each kind; bytes unless stated otherwise."""

    record_bytes: int = 16 * 1024 * 1024
    """One Kafka record. Kafka's own default is 1 MiB; topics that carry whole messages are often raised to 8
    or 10 MiB."""
    message_bytes: int = 64 * 1024 * 1024
    """One message after decompression. A gzip bomb grows by a factor of 1000, real messages by 5 to 20."""
    json_depth: int = 64
    """Nesting of objects and lists. Messages have 4 levels; the strict JSON writer supports 254."""
    name_chars: int = 256
    """Catalog, database, table, column and constraint names: the width of the metastore's own columns."""
    path_chars: int = 8_192
    """One file entry's path, and a partition's name; HDFS refuses paths above 8,000 characters."""
    files: int = 500_000
    """File entries in one event."""
    partitions: int = 200_000
    """Partitions in one event."""
    txns: int = 100_000
    """Transactions that one OPEN_TXN opens (Hive's ``hive.txn.max.open.batch`` is 1,000), and pairs of one
    allocation."""

    def __post_init__(self) -> None:
        """Check that each limit admits some input and that the JSON writer supports the depth."""
        for name in self.__slots__:
            assert getattr(self, name) > 0, name
        assert self.json_depth <= 200, "orjson writes 254 levels at most"


DEFAULT_LIMITS: Final = Limits()


def unpack(text: str, message_format: str | None, limits: Limits = DEFAULT_LIMITS) -> JsonObject:
    """Return the message's JSON object; raise the errors of ``unpack_text`` and ``read_object``."""
    return read_object(unpack_text(text, message_format, limits), limits.json_depth)


def unpack_text(text: str, message_format: str | None, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return the message's JSON text.

    ``message_format`` is NotificationEvent.messageFormat, compared without case; if it is absent, the text
    decides. Raises MalformedEvent and LimitExceeded.
    """
    form = (message_format or "").lower()
    if form in _GZIP_FORMATS or (not form and text.startswith(_GZIP_IN_BASE64)):
        return _decompress(text, limits)
    if form and form not in _PLAIN_FORMATS:
        raise MalformedEvent("the message has an unknown format", message_format=form[:100])
    return _encode(text, limits)


def read_object(text: bytes, depth_max: int = DEFAULT_LIMITS.json_depth) -> JsonObject:
    """Read one JSON object leniently; ``write`` can write the result.

    ``depth_max`` counts the levels of objects and lists, including the outermost. Raises MalformedEvent and
    LimitExceeded.
    """
    check_size(text)
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if len(text) > LENIENT_BYTES_MAX:
            raise MalformedEvent("the text is not JSON", reason=str(error)[:200]) from error
        value = _read_leniently(text)
    if type(value) is not dict:
        raise MalformedEvent("the JSON text is not an object", found=type(value).__name__)
    _check_depth(value, depth_max)
    return value


def write(value: object) -> bytes:
    """Write strict JSON: UTF-8, no raw control characters, no NaN. Raises MalformedEvent for values that JSON
    cannot represent.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise MalformedEvent("the value cannot be written as strict JSON", reason=str(error)) from error


def _encode(text: str, limits: Limits) -> bytes:
    if len(text) > limits.message_bytes:
        raise _too_long(limits)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise MalformedEvent("the message is not valid Unicode", reason=error.reason) from error


def _decompress(text: str, limits: Limits) -> bytes:
    """Decode base64, then gzip, never holding more than the limit in memory,
    so that a gzip bomb does no harm.
    """
    try:
        packed = binascii.a2b_base64(text, strict_mode=True)
        stream = zlib.decompressobj(_GZIP_WINDOW)
        data = stream.decompress(packed, limits.message_bytes)
    except (ValueError, zlib.error) as error:
        raise MalformedEvent("the message is not base64 of gzip", reason=str(error)) from error
    if stream.unconsumed_tail or (not stream.eof and len(data) >= limits.message_bytes):
        raise _too_long(limits)
    if not stream.eof:
        raise MalformedEvent("the compressed message is truncated", size_bytes=len(data))
    if stream.unused_data:
        raise MalformedEvent("bytes follow the compressed message", size_bytes=len(stream.unused_data))
    return data


def _too_long(limits: Limits) -> LimitExceeded:
    return LimitExceeded(
        "the message exceeds its limit", limit="message_bytes", limit_bytes=limits.message_bytes
    )


def _read_leniently(text: bytes) -> Any:
    """Parse text that the strict parser refused, and pass it through the strict writer to exclude values that
    JSON does not allow.
    """
    try:
        value = json.loads(text.decode(), strict=False, parse_constant=_refuse, parse_float=_finite)
        return orjson.loads(orjson.dumps(value))
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedEvent("the text is not JSON", reason=str(error)[:200]) from error


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is out of range for a float")
    return value


def _check_depth(value: JsonObject, depth_max: int) -> None:
    """Walk containers only, level by level: a typical message has very few of them."""
    level: list[Any] = [value]
    for _ in range(depth_max):
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return
    raise LimitExceeded(
        "the JSON is nested more deeply than its limit allows", limit="json_depth", limit_levels=depth_max
    )
