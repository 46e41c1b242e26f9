"""The object stores that pyarrow supports: S3, GCS, Azure. HDFS has its own client (``hdfs``).

Publishing differs, because not every store has a rename:

* Other file systems of pyarrow (local ones, in tests): a hidden file in the same directory moves to its final
  name. If the name exists and the move fails, the old file disappears first: for a moment readers find
  neither.
* Object stores: a file of up to 16 MiB stays in memory and goes out completely by ``publish``, as one atomic
  PUT. A larger one goes to a hidden key, and then by a copy on the server to its final name. Above 4 GiB
  servers refuse such a copy; the object is written under its final name, and removed if it turns out wrong.
  (The library completes an upload when its stream is dropped; it cannot abandon one.)

pyarrow takes 60 MB of memory, so the module imports it for the first such location.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Self

from handlers.files.filesystems import Chunk, Entry, FileState, ReadStream, WriteStream, make_temporary_name
from handlers.files.paths import Location, printable
from state.errors import (
    FilesUnavailable,
    InvalidRequest,
    NotFound,
    Refused,
    TidelineError,
    UnsafePath,
    Unsupported,
)


BUFFERED_BYTES_MAX: Final = 16 * 1024 * 1024
SERVER_COPY_BYTES_MAX: Final = 4 * 1024**3

PathOf = Callable[[Location], str]
_DENIED: Final = re.compile(
    r"ACCESS_DENIED|HTTP status 40[13]|Permission denied|AccessControlException|ExpiredToken"
    r"|InvalidAccessKeyId|SignatureDoesNotMatch|SafeModeException|StandbyException"
)
"""Answers about credentials, rights or the state of the storage; they are not the fault of a path."""


class ArrowFiles:
    """Files through a ``pyarrow.fs.FileSystem``."""

    def __init__(self, library: Any, path_of: PathOf, *, object_store: bool) -> None:
        self._library = library
        self._path_of = path_of
        self._object_store = object_store

    def stat(self, location: Location) -> FileState:
        """Return size and time of a file."""
        from pyarrow.fs import FileType

        with _translate_errors(location):
            info = self._library.get_file_info(self._path_of(location))
        if info.type == FileType.NotFound:
            raise NotFound("no such file or directory", path=printable(str(location)))
        if info.type != FileType.File:
            raise Refused("the path is not a regular file", path=printable(str(location)))
        return FileState(info.size, info.mtime_ns)

    def list(self, location: Location) -> Sequence[Entry]:
        """Return the children; in an object store a directory without objects does not exist."""
        from pyarrow.fs import FileSelector, FileType

        with _translate_errors(location):
            infos = self._library.get_file_info(FileSelector(self._path_of(location), recursive=False))
        return sorted(
            Entry(i.base_name, i.type == FileType.Directory, i.size or 0, i.mtime_ns)
            for i in infos
            if i.base_name
        )

    def open(self, location: Location) -> ArrowReader:
        """Open a file."""
        with _translate_errors(location):
            return ArrowReader(self._library.open_input_stream(self._path_of(location)), location)

    def is_encrypted(self, location: Location) -> bool:  # noqa: ARG002, PLR6301 - required by the port
        """Return False: readers get the stored bytes."""
        return False

    def create(self, location: Location, size_bytes: int) -> WriteStream:
        """Start a file, by the method that suits its size and the file system."""
        if self._object_store and size_bytes <= BUFFERED_BYTES_MAX:
            return BufferedWriter(self._library, self._path_of(location), location)
        direct = self._object_store and size_bytes > SERVER_COPY_BYTES_MAX
        hidden = location if direct else location.parent.child(make_temporary_name())
        with _translate_errors(location):
            if not self._object_store:
                self._library.create_dir(self._path_of(location.parent), recursive=True)
            stream = self._library.open_output_stream(self._path_of(hidden))
        return ArrowWriter(self._library, stream, self._path_of(hidden), self._path_of(location), location)

    def make_directory(self, location: Location) -> None:
        """Create a directory, or the empty object that stands for one."""
        with _translate_errors(location):
            self._library.create_dir(self._path_of(location), recursive=True)

    def remove(self, location: Location) -> None:
        """Remove a file."""
        with _translate_errors(location), contextlib.suppress(FileNotFoundError):
            self._library.delete_file(self._path_of(location))

    def remove_tree(self, location: Location) -> None:
        """Remove a directory, or all objects below it."""
        with _translate_errors(location), contextlib.suppress(FileNotFoundError):
            self._library.delete_dir(self._path_of(location))

    def settle(self, directory: Location) -> None:
        """Do nothing: a store's acknowledged writes are durable."""

    # ARG002: required by the port
    def transfer(self, source: ReadStream, target: WriteStream, size_bytes: int) -> int:  # noqa: ARG002
        """Return 0: these file systems cannot copy inside the kernel."""
        return 0


class ArrowReader:
    """An input stream."""

    def __init__(self, stream: Any, location: Location) -> None:
        self._stream = stream
        self._location = location

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill ``buffer``."""
        with _translate_errors(self._location):
            return int(self._stream.readinto(buffer))

    def read_chunk(self, buffer: memoryview, /) -> Chunk:
        """Fill ``buffer`` and return the filled part."""
        return buffer[: self.readinto(buffer)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(
            OSError
        ):  # the content is correct already; a failing close does not change it
            self._stream.close()


class BufferedWriter:
    """A small object, kept in memory and sent by ``publish``."""

    def __init__(self, library: Any, path: str, location: Location) -> None:
        self._library = library
        self._path = path
        self._location = location
        self._buffer = bytearray()

    def write(self, data: Chunk, /) -> None:
        """Keep ``data``."""
        self._buffer += data

    def publish(self) -> None:
        """Send the object."""
        with _translate_errors(self._location), self._library.open_output_stream(self._path) as stream:
            stream.write(memoryview(self._buffer))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._buffer = bytearray()


class ArrowWriter:
    """A file under a hidden name (or, for huge objects, under its final name) until published."""

    def __init__(self, library: Any, stream: Any, hidden: str, final: str, location: Location) -> None:
        self._library = library
        self._stream = stream
        self._hidden = hidden
        self._final = final
        self._location = location
        self._published = False

    def write(self, data: Chunk, /) -> None:
        """Append ``data``."""
        with _translate_errors(self._location):
            self._stream.write(data)

    def publish(self) -> None:
        """Complete the file and move it to its final name."""
        with _translate_errors(self._location):
            self._stream.close()
            if self._hidden != self._final:
                self._move()
        self._published = True

    def _move(self) -> None:
        try:
            self._library.move(self._hidden, self._final)
        except OSError:
            # The name may exist already. Any other failure occurs again below.
            self._library.delete_file(self._final)
            self._library.move(self._hidden, self._final)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._published:
            return
        with _translate_errors(self._location), contextlib.suppress(FileNotFoundError):
            with contextlib.suppress(OSError):
                self._stream.close()
            self._library.delete_file(self._hidden)


@contextlib.contextmanager
def _translate_errors(location: Location) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:
        raise _to_tideline_error(error, location) from error


# PLR0911: one line for each kind
def _to_tideline_error(error: Exception, location: Location) -> TidelineError:  # noqa: PLR0911
    """Return the error of Tideline's tree;
    ArrowInvalid is a ValueError, all other relevant errors are an OSError.
    """
    path, reason = printable(str(location)), printable(str(error))
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NotFound("no such file or directory", path=path)
    if getattr(error, "errno", None) == errno.ENAMETOOLONG or "KeyTooLong" in str(error):
        return UnsafePath("the path is too long for the file system", path=path, reason=reason)
    if isinstance(error, PermissionError) or _DENIED.search(str(error)):
        return FilesUnavailable(
            "the file system denied access",
            path=path,
            reason=reason,
            hint="Check the credentials and their rights (files.secrets); Tideline tries again.",
        )
    if isinstance(error, IsADirectoryError):
        return Refused("the path is not a regular file", path=path)
    if isinstance(error, NotImplementedError):
        return Unsupported("the file system does not support the call", path=path, reason=reason)
    if isinstance(error, ValueError):
        return InvalidRequest("the file system rejects the request", path=path, reason=reason)
    return FilesUnavailable("the file system failed", path=path, reason=reason)
