"""Checksums of stored values: a read detects a flipped bit and never returns the value.

SQLite checks the structure of its pages, not the content. A position with one flipped bit would be another,
valid position. Each row therefore has the CRC32C of its key and value. Rows of a file from before checksums
have none (NULL) until their next write: the upgrade of a large file is immediate.
"""

from __future__ import annotations

from collections.abc import Iterable

import google_crc32c

from state.errors import StateCorrupt


_HINT = "Restore a backup ('tideline restore'), or move the file away and bootstrap again."


def checksum(key: bytes, value: bytes) -> int:
    """Return the CRC32C of a row."""
    return int(google_crc32c.extend(google_crc32c.value(key), value))


def require_sound(path: str, key: bytes, value: bytes, stored: int | None) -> bytes:
    """Return ``value``; raise StateCorrupt if its checksum differs from the stored one."""
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
