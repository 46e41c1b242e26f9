"""Positions of query sources as they are stored: as they are, and deflated where they are long.

A source of files remembers every file that lies there; 200,000 of them are 30 MB, which is more than MySQL takes in one packet
by default, and would be written with each batch. Names of files shrink to a tenth.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from typing import Final

from state.errors import LimitExceeded, StateCorrupt
from streaming.keylog.asking import storable


CHARS_PLAIN: Final = 64 * 1024
BYTES_MAX: Final = 256 << 20
"""Longer ones are not unpacked: no source has them."""
STORED_CHARS_MAX: Final = 12 << 20
"""MySQL takes packets of 16 MB by default."""
_MARK: Final = "deflated:"


def packed(position: str) -> str:
    """Return what is stored for ``position``; raise LimitExceeded where no database would take it."""
    if storable(position, CHARS_PLAIN) == position and not position.startswith(_MARK):
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


def unpacked(stored: str) -> str:
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
