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
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from handlers.files.filesystems import CHUNK_BYTES, FileSystem, ReadStream, WriteStream
from state.errors import FilesUnavailable, TidelineError


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


Guard = Callable[[], AbstractContextManager[None]]
Reserve = Callable[[int], AbstractContextManager[None]]
"""Asked with a file's size before its bytes move; may wait."""


_LOCAL: Final = threading.local()


def _buffer() -> memoryview:
    """Return this thread's buffer: most files are small, and clearing a new megabyte costs more than copying them."""
    if not hasattr(_LOCAL, "buffer"):
        _LOCAL.buffer = memoryview(bytearray(CHUNK_BYTES))
    buffer: memoryview = _LOCAL.buffer
    return buffer


class SourceFailed(Exception):  # noqa: N818 - an outcome that the copy handles, never an error that leaves this package
    """The origin could not be read; ``__cause__`` is the reason, of Tideline's tree."""


@contextmanager
def mark_source_errors() -> Iterator[None]:
    """Mark failures of the block as the origin's."""
    try:
        yield
    except TidelineError as error:
        raise SourceFailed from error


@dataclass(frozen=True, slots=True)
class Transfer:
    """One copy's way of moving bytes; every step raises FilesUnavailable once ``cancelled`` is set."""

    cancelled: threading.Event | None = None
    reserve: Reserve | None = None

    def reserve_bytes(self, size_bytes: int) -> AbstractContextManager[None]:
        """Hold ``size_bytes`` of what may move at one time."""
        return nullcontext() if self.reserve is None else self.reserve(size_bytes)

    def read_chunks(self, reader: ReadStream, guard: Guard = nullcontext) -> Iterator[memoryview]:
        """Yield the content; a chunk is valid until this thread asks for another, of any file. Reads run inside ``guard``."""
        buffer = _buffer()
        while True:
            self._check_cancelled()
            with guard():
                filled = reader.readinto(buffer)
            if filled == 0:
                return
            yield buffer[:filled]

    def compute_md5(self, reader: ReadStream, guard: Guard = nullcontext) -> str:
        """Return the MD5 of the rest of ``reader`` in hex."""
        digest = new_digest()
        for chunk in self.read_chunks(reader, guard):
            digest.update(chunk)
        return digest.hexdigest()

    def copy_in_kernel(self, files: FileSystem, reader: ReadStream, writer: WriteStream) -> int:
        """Move all bytes without touching them and return how many; 0 where that cannot be done (or there are none)."""
        moved = 0
        while step := files.transfer(reader, writer):
            moved += step
            self._check_cancelled()
        return moved

    def _check_cancelled(self) -> None:
        if self.cancelled is not None and self.cancelled.is_set():
            raise FilesUnavailable("the copy was cancelled")
