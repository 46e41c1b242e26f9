"""Transfers bytes in chunks or inside the kernel, verifies checksums,
and separates failures of the source from those of the target.

A failed read sends the copy to the next origin and a failed write ends it, but both raise the same errors.
Code that touches the source therefore runs inside ``mark_source_errors``.

``checksums`` defines the comparison of the bytes. Without a verifiable checksum, the source's state before
and after the copy must be equal.

An unverifiable checksum is still useful: the change manager names its copies by it. A copy that exists there
is the recorded content, and takes precedence over the source path (see ``copies``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol

from handlers.files.copying.checksums import Checksum, Md5
from handlers.files.filesystems import CHUNK_BYTES, Chunk, FileSystem, ReadStream, WriteStream
from state.errors import FilesUnavailable, NotFound, TidelineError


Guard = Callable[[], AbstractContextManager[None]]
Reserve = Callable[[int], AbstractContextManager[None]]
"""Called with the size of a file before copying its bytes; may wait."""
Moved = Callable[[int], None]
"""Called with the number of bytes after each step of a transfer or verification."""
STEP_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of one step inside the kernel."""


_LOCAL: Final = threading.local()


def _buffer() -> memoryview:
    """Return this thread's buffer: most files are small,
    and clearing a new megabyte costs more than the copy.
    """
    if not hasattr(_LOCAL, "buffer"):
        _LOCAL.buffer = memoryview(bytearray(CHUNK_BYTES))
    buffer: memoryview = _LOCAL.buffer
    return buffer


# N818: an outcome that the copy handles, never raised out of this package
class SourceFailed(Exception):  # noqa: N818
    """The origin is unreadable; ``__cause__`` is the reason, an error of Tideline's tree."""


class ContentDiffers(Exception):  # noqa: N818 - likewise
    """The bytes are not the recorded ones, or they changed during the reading."""


# N801: used like a function; a class, because a generator costs as much as a system call
class mark_source_errors:  # noqa: N801
    """Mark failures of the block as failures of the source."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, TidelineError):
            raise SourceFailed from error


# N801: used like a function; a class, because a generator costs as much as a system call
class mark_target_errors:  # noqa: N801
    """Turn NotFound for the target directory into FilesUnavailable: unlike a missing source file, the copy
    can create it again.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, NotFound):
            path = error.context.get("path")
            raise FilesUnavailable("the target directory vanished during the copy", path=path) from error


class Cancellation(Protocol):
    """Says whether a copy is cancelled, as a ``threading.Event`` does."""

    def is_set(self) -> bool:
        """Return whether the copy is cancelled."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """The byte transfer of one copy; every step raises FilesUnavailable once ``cancelled`` is set."""

    cancelled: Cancellation | None = None
    reserve: Reserve | None = None
    moved: Moved | None = None
    step_bytes: Callable[[], int] = lambda: STEP_BYTES_MAX
    """Returns how many bytes the next step inside the kernel may have."""

    def reserve_bytes(self, size_bytes: int) -> AbstractContextManager[None]:
        """Reserve ``size_bytes`` of the bytes that may be in flight."""
        return nullcontext() if self.reserve is None else self.reserve(size_bytes)

    def read_chunks(self, reader: ReadStream, guard: Guard = nullcontext) -> Iterator[Chunk]:
        """Yield the content. A chunk is valid until this thread reads the next one of any file.
        Reads run inside ``guard``.
        """
        buffer = _buffer()
        while True:
            self._check_cancelled()
            with guard():
                chunk = reader.read_chunk(buffer)
            if not chunk:
                return
            self._note_moved(len(chunk))
            yield chunk

    def compute_md5(self, reader: ReadStream, guard: Guard = nullcontext) -> str:
        """Return the MD5 of the rest of ``reader`` in hex."""
        digest = Md5()
        for chunk in self.read_chunks(reader, guard):
            digest.update(chunk)
        return digest.hexdigest()

    def has_checksum(self, reader: ReadStream, checksum: Checksum) -> bool:
        """Return whether the rest of ``reader`` has the recorded checksum."""
        digest = checksum.new_digest()
        for chunk in self.read_chunks(reader):
            digest.update(chunk)
        return digest.proves(checksum.recorded)

    def copy_in_kernel(
        self, files: FileSystem, reader: ReadStream, writer: WriteStream, size_bytes: int
    ) -> int:
        """Copy up to ``size_bytes`` inside the kernel and return their number; 0 if that is not possible,
        or at the end of the file.
        """
        moved = 0
        while moved < size_bytes and (step := files.transfer(reader, writer, self.step_bytes())):
            moved += step
            self._note_moved(step)
            self._check_cancelled()
        return moved

    def _note_moved(self, size_bytes: int) -> None:
        if self.moved is not None:
            self.moved(size_bytes)

    def _check_cancelled(self) -> None:
        if self.cancelled is not None and self.cancelled.is_set():
            raise FilesUnavailable("the copy was cancelled")
