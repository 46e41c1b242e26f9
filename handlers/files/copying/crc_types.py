"""Verifies copies for the price of one type of CRC, although a recorded checksum does not say which type it was computed with.

HDFS's default is CRC32C; clusters that began before Hadoop 2 have CRC32. Both cost three times as much as CRC32C alone (``checksums``), so
only that one is computed at first. If it does not prove the content, the source is read again with both. A file system that turns out to
have files of the other type gets both from then on, and is not read twice again.

Promise: the answer is the one that both types give on the bytes that were copied. The second reading counts only if the CRC32C of both
readings is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Callable

    from handlers.files.copying.checksums import Checksum, Digest
    from handlers.files.paths import Location


class CrcTypes:
    """The file systems that have files with another type of CRC than HDFS's default; thread-safe."""

    def __init__(self) -> None:
        self._others: set[tuple[str, str]] = set()

    def new_digest(self, location: Location, checksum: Checksum) -> Digest:
        """Return a digest for the bytes of ``location``, to be passed to ``is_recorded``."""
        if (location.scheme, location.authority) in self._others:
            return checksum.new_digest()
        return checksum.new_default_digest()

    def is_recorded(
        self, location: Location, checksum: Checksum, copied: Digest, read_again: Callable[[Digest], None]
    ) -> bool:
        """Return whether ``copied``, the digest of the bytes that were copied from ``location``, proves the recorded content.

        ``read_again`` adds the content of ``location`` to a digest; its errors are passed on.
        """
        if copied.proves(checksum.recorded):
            return True
        if checksum.new_default_digest is checksum.new_digest:
            return False
        both = checksum.new_digest()
        read_again(both)
        if both.hexdigest() != copied.hexdigest() or not both.proves(checksum.recorded):
            return False
        self._others.add((location.scheme, location.authority))
        return True
