"""The file system port, and the registry that finds the implementation for a location.

Every implementation promises: a file appears under its final name completely or not at all (``create`` …
``publish``), unless its docstring names the exception. An unpublished file has a name that starts with
``._tideline_``, which Hive and Spark treat as hidden. The next process that writes to the directory first
removes such a file of a killed process (``sweep``).

Errors belong to Tideline's tree:

* NotFound: the path does not exist;
* Refused: it exists, but permissions or its type forbid the call (a retry does not help);
* UnsafePath: a symbolic link in place of a file;
* FilesUnavailable: everything that may pass: no space, quota, input/output error, time-out, too many open
  files.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, Self, runtime_checkable

from state.errors import ConfigError, NotFound


if TYPE_CHECKING:
    from handlers.files.paths import Location


CHUNK_BYTES: Final = 1024 * 1024
TEMPORARY_PREFIX: Final = "._tideline_"
# Distinguishes unfinished files of this process from those that a killed process left.
PROCESS_TOKEN: Final = secrets.token_hex(4)
SWEPT_DIRECTORIES_MAX: Final = 4096
OPEN_MAX: Final = 64
"""File systems that stay open; events can name any number of authorities."""


def make_temporary_name() -> str:
    """Return a new, unique hidden name."""
    return f"{TEMPORARY_PREFIX}{PROCESS_TOKEN}_{secrets.token_hex(8)}"


def is_leftover(name: str) -> bool:
    """Return whether ``name`` is an unfinished file of another process, which must have ended."""
    return name.startswith(TEMPORARY_PREFIX) and not name.startswith(f"{TEMPORARY_PREFIX}{PROCESS_TOKEN}_")


def is_hidden(name: str) -> bool:
    """Return whether readers and listings skip ``name``.

    ``_date=2024-01-01`` is the directory of a partition: Spark reads it
    (``HadoopFSUtils.shouldFilterOutPathName``), although Hive skips it.
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def is_unfinished(name: str) -> bool:
    """Return whether ``hadoop fs -put`` or ``-cp`` still writes the file: they rename it when it is complete
    (``CommandWithDestination``).

    Spark skips it. Hive reads it, with the rows that are there so far.
    """
    return name.endswith("._COPYING_")


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of a file, which shows whether it changed:
    equal states of a path mean equal content, as far as the system can tell.
    """

    size_bytes: int
    mtime_ns: int | None
    identity: int | None = None
    """The inode, if there is one: a file replaced by rename is another file even
    if size and time are equal.
    """


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One child of a directory."""

    name: str
    is_directory: bool
    size_bytes: int
    mtime_ns: int | None = field(default=None, compare=False)
    identity: int | None = field(default=None, compare=False)
    """Time and inode as in ``FileState``, which shows changed files without a call for each."""


Chunk = bytes | memoryview


class ReadStream(Protocol):
    """An open file; closed by its ``with`` block."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill ``buffer`` from the current position and return the number of bytes; 0 at the end."""

    def read_chunk(self, buffer: memoryview, /) -> Chunk:
        """Return the next bytes, at most as many as ``buffer`` holds, in ``buffer`` or in another object;
        empty at the end.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class WriteStream(Protocol):
    """A file that is not visible to others yet; leaving its ``with`` block without publishing removes it."""

    def write(self, data: Chunk, /) -> None:
        """Append all of ``data``."""

    def publish(self) -> None:
        """Make the content durable and move it to its final name,
        replacing any earlier file. This is the last call.

        The name itself is durable after ``FileSystem.settle``.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class FileSystem(Protocol):
    """The operations that Tideline needs from a file system.
    Implementations are thread-safe; streams are not.
    """

    def stat(self, location: Location) -> FileState:
        """Return the state of a regular file;
        raise NotFound if it does not exist, Refused if it is a directory.
        """

    def list(self, location: Location) -> Sequence[Entry]:
        """Return the children of a directory, sorted by name; raise NotFound if it does not exist."""

    def open(self, location: Location) -> ReadStream:
        """Open a regular file for reading from its start."""

    def is_encrypted(self, location: Location) -> bool:
        """Return whether the file system stores a file encrypted, so that its checksum is not the checksum of
        the bytes that a reader gets.

        Raises NotFound if the file does not exist.
        """

    def create(self, location: Location, size_bytes: int) -> WriteStream:
        """Start a file of ``size_bytes``; create missing parent directories."""

    def make_directory(self, location: Location) -> None:
        """Create a directory and its missing parents; do nothing if it exists.
        An object store gets an empty object of that name.
        """

    def remove(self, location: Location) -> None:
        """Remove a file; do nothing if it is absent."""

    def remove_tree(self, location: Location) -> None:
        """Remove a directory with everything in it; do nothing if it is absent."""

    def settle(self, directory: Location) -> None:
        """Make the names of all files published in ``directory`` durable; raise NotFound if it does not
        exist.
        """

    def transfer(self, source: ReadStream, target: WriteStream, size_bytes: int) -> int:
        """Copy at most the next ``size_bytes`` inside the kernel and return their number; 0 at the end, or
        if that is not possible here.
        """


def read_chunks(files: FileSystem, location: Location) -> Iterator[bytes]:
    """Yield the content of a file."""
    buffer = memoryview(bytearray(CHUNK_BYTES))
    with files.open(location) as reader:
        while count := reader.readinto(buffer):
            yield bytes(buffer[:count])


Factory = Callable[[str, Mapping[str, object]], FileSystem]
"""Opens the file system of an authority with the options of its scheme; raises ConfigError if they are
invalid."""


@runtime_checkable
class LinkedFileSystem(Protocol):
    """A file system with symbolic links, which it does not follow below its trusted roots."""

    def trust(self, root: Location) -> None:
        """Allow symbolic links in the path of ``root`` itself."""


class FileSystems:
    """Finds the file system of a location; opens each (scheme, authority) on first use, and keeps the last
    ``OPEN_MAX`` open.
    """

    def __init__(
        self, factories: Mapping[str, Factory], options: Mapping[str, Mapping[str, object]] | None = None
    ) -> None:
        self._factories = dict(factories)
        self._options = dict(options or {})
        self._open: OrderedDict[tuple[str, str], FileSystem] = OrderedDict()
        self._trusted: set[Location] = set()
        self._lock = threading.Lock()
        if unknown := sorted(set(self._options) - set(self._factories)):
            raise ConfigError(
                "options for unknown file systems", schemes=unknown, known=sorted(self._factories)
            )

    def of(self, location: Location) -> FileSystem:
        """Return the file system of ``location``;
        raise ConfigError if its scheme is unknown or cannot be opened.
        """
        key = (location.scheme, location.authority)
        with self._lock:
            if key not in self._open:
                self._open[key] = self._start(location)
                if len(self._open) > OPEN_MAX:
                    self._open.popitem(last=False)
            self._open.move_to_end(key)
            return self._open[key]

    @property
    def trusted(self) -> Sequence[Location]:
        """The directories whose own paths may contain symbolic links."""
        with self._lock:
            return sorted(self._trusted)

    def trust(self, roots: Iterable[Location]) -> None:
        """Allow symbolic links in the paths of ``roots`` themselves, which an operator has named."""
        with self._lock:
            for root in {*roots} - self._trusted:
                self._trusted.add(root)
                files: object = self._open.get((root.scheme, root.authority))
                if isinstance(files, LinkedFileSystem):
                    files.trust(root)

    def _start(self, location: Location) -> FileSystem:
        factory = self._factories.get(location.scheme)
        if factory is None:
            raise ConfigError(
                "no file system for this scheme", scheme=location.scheme, known=sorted(self._factories)
            )
        files = factory(location.authority, self._options.get(location.scheme, {}))
        if isinstance(files, LinkedFileSystem):
            for root in self._trusted:
                if (root.scheme, root.authority) == (location.scheme, location.authority):
                    files.trust(root)
        return files


def sweep(file_systems: FileSystems, directory: Location) -> int:
    """Remove the unfinished files of killed processes from ``directory``,
    if it exists, and return their number.
    """
    files = file_systems.of(directory)
    try:
        leftovers = [entry.name for entry in files.list(directory) if is_leftover(entry.name)]
    except NotFound:
        return 0
    for name in leftovers:
        files.remove(directory.child(name))
    return len(leftovers)


class SweptDirectories:
    """The directories that this process has swept. It remembers only the latest, and sweeps others again."""

    def __init__(self) -> None:
        self._directories: OrderedDict[Location, None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, directory: Location) -> bool:
        """Remember ``directory`` and return whether it is new."""
        with self._lock:
            if directory in self._directories:
                return False
            self._directories[directory] = None
            if len(self._directories) > SWEPT_DIRECTORIES_MAX:
                self._directories.popitem(last=False)
            return True
