"""Checksums of stored values: a flipped bit is noticed when a value is read, and never used.

SQLite checks the structure of its pages, not the content. A position with one flipped bit would be another,
valid position. Each row therefore has the CRC32C of its key and value. Rows of a file from before checksums
have none (NULL) until they are written again, so that a large file is upgraded at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import google_crc32c

from state.errors import StateCorrupt


if TYPE_CHECKING:
    from collections.abc import Iterable


_HINT = "Restore a backup ('tideline restore'), or move the file away and bootstrap again."


def checksum(key: bytes, value: bytes) -> int:
    """Return the CRC32C of a row."""
    return int(google_crc32c.extend(google_crc32c.value(key), value))


def require_sound(path: str, key: bytes, value: bytes, stored: int | None) -> bytes:
    """Return ``value``; raise StateCorrupt if it is not the value that was stored with this checksum."""
    if stored is not None and checksum(key, value) != stored:
        raise StateCorrupt(
            "a value in the state file was changed outside of Tideline, or the disk returned other bytes",
            path=path,
            key=key.hex()[:200],
            hint=_HINT,
        )
    return value


def sound_pairs(path: str, rows: Iterable[tuple[bytes, bytes, int | None]]) -> list[tuple[bytes, bytes]]:
    """Return key and value of each row; raise StateCorrupt as ``require_sound`` does."""
    value_of, extend = google_crc32c.value, google_crc32c.extend
    pairs = []
    for key, value, stored in rows:
        if stored is not None and extend(value_of(key), value) != stored:
            require_sound(path, key, value, stored)
        pairs.append((key, value))
    return pairs
