"""What can be verified about a file's content, and what cannot.

The change manager records the hex form of Hadoop's ``FileSystem.getFileChecksum().getBytes()`` (ReplChangeManager), so what the
text means depends on the source's file system:

========================  ==========================================  =================================================
recorded                  meaning                                     what Tideline verifies
========================  ==========================================  =================================================
32 hex digits, ``file:``  MD5 of the bytes                            every copied byte, in the pass that copies it
56 hex digits (HDFS)      MD5 of MD5s of CRCs, with its parameters    size; the source's state before and after the copy
anything else             unknown                                     the same
none                      the file system has no checksums            the same
========================  ==========================================  =================================================

An unverifiable checksum is still worth something: the change manager names its copies by it, so a copy that exists there
*is* the recorded content, and is preferred to the source path (see ``copies``).
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, Protocol


if TYPE_CHECKING:
    from handlers.files.paths import Location


_MD5_HEX: Final = re.compile(r"[0-9a-fA-F]{32}")


class Digest(Protocol):
    """A running hash of bytes."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take in ``data``."""

    def hexdigest(self) -> str:
        """Return the hash of all bytes so far in lower-case hex."""


def new_digest() -> Digest:
    """Return the hash that verifiable checksums are made of."""
    return hashlib.md5(usedforsecurity=False)


def expected_md5(location: Location, recorded: str | None) -> str | None:
    """Return the MD5 that the bytes of ``location`` must have, or None where ``recorded`` cannot be verified here."""
    if recorded is not None and location.scheme == "file" and _MD5_HEX.fullmatch(recorded):
        return recorded.lower()
    return None
