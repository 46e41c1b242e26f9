"""The values that the key log records, in a form that every database stores in the same way.

A ``KeyRequest`` is one use of a key in a query. Its texts come from other systems' queries and logs. Text
that some database cannot store (NUL, which PostgreSQL refuses; lone surrogates; more characters than a column
has) is replaced or cut, so that all databases hold the same.

The log stores positions of query sources as they are, or deflated if they are long. A source of files records
every file in its directory: 200,000 of them are 30 MB. This is more than MySQL accepts in one packet by
default, and would be written with each batch. File names shrink to a tenth of their size.
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
"""How far a query's time may be ahead of this machine's clock. A query dated in the year 3000 would count
indefinitely."""
EARLIEST_S: Final = 946_684_800
"""The year 2000: queries dated earlier have a wrong time."""
CHARS_PLAIN: Final = 64 * 1024
"""Positions up to this length stay as they are."""
BYTES_MAX: Final = 256 << 20
"""Longer positions are not unpacked: no source has them."""
STORED_CHARS_MAX: Final = 12 << 20
"""MySQL accepts packets of 16 MB by default."""
_MARK: Final = "deflated:"


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """A use of a key in a query that ran."""

    raw_table: str
    """``db.table`` or the directory whose JSON the query reads."""
    key: KeyPath
    user: str
    """Empty if unknown."""
    at_s: int
    """Seconds since 1970."""
    fingerprint: str
    """Of the query's text."""
    count: int = 1
    """How often it ran at that time."""


def day_of(at_s: int) -> int:
    """Return the number of the day since 1970 (UTC)."""
    return at_s // DAY_S


def encode_members(key: KeyPath) -> str:
    """Return the key as a JSON list in ASCII, which every database stores without changes."""
    return json.dumps(key.members, separators=(",", ":"))


def decode_members(members: str) -> KeyPath:
    """Return the key of a JSON list; raise StateCorrupt for any other text."""
    try:
        read = json.loads(members)
    except ValueError:
        read = None
    if not isinstance(read, list) or not read or not all(isinstance(name, str) and name for name in read):
        raise StateCorrupt("the key log contains an invalid key", members=members[:200])
    return KeyPath(tuple(read))


def make_storable(text: str, chars_max: int) -> str:
    """Return ``text`` in a form that every database stores: valid Unicode without NUL, cut to
    ``chars_max``.
    """
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return clean.encode("utf-8", "replace").decode()[:chars_max]


def pack_position(position: str) -> str:
    """Return the stored form of ``position``; raise LimitExceeded if it is too long for a database."""
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
    """Return the position of a stored form; raise StateCorrupt if it is unreadable."""
    if not stored.startswith(_MARK):
        return stored
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(b64decode(stored.removeprefix(_MARK), validate=True), BYTES_MAX)
        position = content.decode("utf-8", "surrogatepass")
    except (ValueError, zlib.error) as error:
        raise StateCorrupt("the position of a query source cannot be read", reason=str(error)) from None
    if not unpacker.eof:
        raise StateCorrupt("the position of a query source is truncated or too long", chars=len(stored))
    return position
