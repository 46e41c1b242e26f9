"""How bytes move: in chunks or inside the kernel, always stoppable; and whose fault it was when they did not.

A failed read sends the copy to the next origin, a failed write ends it, and both raise the same errors: so what touches the source runs
inside ``reading``, which marks its failures.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

from handlers.files.checksums import new_digest
from handlers.files.filesystems import CHUNK_BYTES, FileSystem, ReadStream, WriteStream
from state.errors import FilesUnavailable, TidelineError


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
def reading() -> Iterator[None]:
    """Mark failures of the block as the origin's."""
    try:
        yield
    except TidelineError as error:
        raise SourceFailed from error


@dataclass(frozen=True, slots=True)
class Flow:
    """One copy's way of moving bytes; every step raises FilesUnavailable once ``cancelled`` is set."""

    cancelled: threading.Event | None = None
    reserve: Reserve | None = None

    def reserved(self, size_bytes: int) -> AbstractContextManager[None]:
        """Hold ``size_bytes`` of what may move at one time."""
        return nullcontext() if self.reserve is None else self.reserve(size_bytes)

    def chunks(self, reader: ReadStream, guard: Guard = nullcontext) -> Iterator[memoryview]:
        """Yield the content; a chunk is valid until this thread asks for another, of any file. Reads run inside ``guard``."""
        buffer = _buffer()
        while True:
            self._require_wanted()
            with guard():
                filled = reader.readinto(buffer)
            if filled == 0:
                return
            yield buffer[:filled]

    def md5(self, reader: ReadStream, guard: Guard = nullcontext) -> str:
        """Return the MD5 of the rest of ``reader`` in hex."""
        digest = new_digest()
        for chunk in self.chunks(reader, guard):
            digest.update(chunk)
        return digest.hexdigest()

    def moved_by_kernel(self, files: FileSystem, reader: ReadStream, writer: WriteStream) -> int:
        """Move all bytes without touching them and return how many; 0 where that cannot be done (or there are none)."""
        moved = 0
        while step := files.transfer(reader, writer):
            moved += step
            self._require_wanted()
        return moved

    def _require_wanted(self) -> None:
        if self.cancelled is not None and self.cancelled.is_set():
            raise FilesUnavailable("the copy was cancelled")
