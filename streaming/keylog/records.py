"""What is recorded: one question for one key, as it was found in a query.

Texts come from other people's queries and logs. What a database could not store (NUL, which PostgreSQL refuses; lone
surrogates; more characters than a column has) is replaced or cut here, once, so that all databases hold the same.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final

from state.columns.paths import KeyPath
from state.errors import LimitExceeded, StateCorrupt


DAY_S: Final = 86_400
FUTURE_S: Final = DAY_S
"""How far ahead of this machine's clock a query may have run; one from the year 3000 would count for ever."""
EARLIEST_S: Final = 946_684_800
"""The year 2000: no query that anybody still counts is older."""


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """A key in a query that ran."""

    raw_table: str
    """``db.table``, or the directory, whose JSON the query took apart."""
    key: KeyPath
    user: str
    """Empty where nobody knows."""
    at_s: int
    """Seconds since 1970."""
    fingerprint: str
    """Of the query's text."""
    count: int = 1
    """How often it ran at that time."""


def day_of(at_s: int) -> int:
    """Return the day, counted from 1970, UTC."""
    return at_s // DAY_S


def encode_members(key: KeyPath) -> str:
    """Return the key as a JSON list in ASCII, which every database stores exactly."""
    return json.dumps(key.members, separators=(",", ":"))


def decode_members(members: str) -> KeyPath:
    """Return the key of a JSON list; raise StateCorrupt where it is none."""
    try:
        read = json.loads(members)
    except ValueError:
        read = None
    if not isinstance(read, list) or not read or not all(isinstance(name, str) and name for name in read):
        raise StateCorrupt("the key log holds something that is no key", members=members[:200])
    return KeyPath(tuple(read))


def make_storable(text: str, chars_max: int) -> str:
    """Return ``text`` as every database stores it: valid Unicode without NUL, cut to ``chars_max``."""
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return clean.encode("utf-8", "replace").decode()[:chars_max]


CHARS_PLAIN: Final = 64 * 1024
BYTES_MAX: Final = 256 << 20
"""Longer ones are not unpacked: no source has them."""
STORED_CHARS_MAX: Final = 12 << 20
"""MySQL takes packets of 16 MB by default."""
_MARK: Final = "deflated:"


def pack_position(position: str) -> str:
    """Return what is stored for ``position``; raise LimitExceeded where no database would take it."""
    if make_storable(position, CHARS_PLAIN) == position and not position.startswith(_MARK):
        return position
    stored = _MARK + b64encode(zlib.compress(position.encode("utf-8", "surrogatepass"), 6)).decode("ascii")
    if len(stored) > STORED_CHARS_MAX:
        raise LimitExceeded(
            "the position of a query source is too long",
            chars=len(stored),
            limit_chars=STORED_CHARS_MAX,
            hint="Give the source a directory with fewer files.",
        )
    return stored


def unpack_position(stored: str) -> str:
    """Return the position that was stored; raise StateCorrupt where it cannot be read."""
    if not stored.startswith(_MARK):
        return stored
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(b64decode(stored.removeprefix(_MARK), validate=True), BYTES_MAX)
        position = content.decode("utf-8", "surrogatepass")
    except (ValueError, zlib.error) as error:
        raise StateCorrupt("the position of a query source cannot be read", reason=str(error)) from None
    if not unpacker.eof:
        raise StateCorrupt("the position of a query source does not end", chars=len(stored))
    return position
