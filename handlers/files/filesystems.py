"""The file system port, and the registry that finds the implementation for a location.

Promises of every implementation: a file appears under its final name whole or not at all (``create`` … ``publish``), unless
its docstring names the exception; what is written but not published has a name that starts with ``._tideline_``, which Hive
and Spark take for hidden; errors are of Tideline's tree:

* NotFound: the path does not exist;
* Refused: it exists, but permissions or its kind forbid the call (repeating changes nothing);
* UnsafePath: a symbolic link where a file was named;
* FilesUnavailable: everything that may pass: no space, quota, input/output error, time-out, too many open files.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, Self

from state.errors import ConfigError, NotFound


if TYPE_CHECKING:
    from types import TracebackType

    from handlers.files.paths import Location


CHUNK_BYTES: Final = 1024 * 1024
TEMPORARY_PREFIX: Final = "._tideline_"
# Tells our own unfinished files from those that a crashed process left.
PROCESS_TOKEN: Final = secrets.token_hex(4)


def make_temporary_name() -> str:
    """Return a new hidden name that nobody else uses."""
    return f"{TEMPORARY_PREFIX}{PROCESS_TOKEN}_{secrets.token_hex(8)}"


def is_leftover(name: str) -> bool:
    """Whether ``name`` is an unfinished file of another, hence dead, process."""
    return name.startswith(TEMPORARY_PREFIX) and not name.startswith(f"{TEMPORARY_PREFIX}{PROCESS_TOKEN}_")


def is_hidden(name: str) -> bool:
    """Whether Hive's readers and listings pass over ``name``."""
    return name.startswith(("_", "."))


@dataclass(frozen=True, slots=True)
class FileState:
    """What tells whether a file changed: two equal states of one path mean the same content, as far as the system can tell."""

    size_bytes: int
    mtime_ns: int | None
    identity: int | None = None
    """The inode where there is one: a file replaced by rename is another file even with equal size and time."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One child of a directory."""

    name: str
    is_directory: bool
    size_bytes: int


class ReadStream(Protocol):
    """An open file; closed by its ``with`` block."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill ``buffer`` from the current place on and return the number of bytes; 0 at the end."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class WriteStream(Protocol):
    """A file that does not exist yet for anybody else; leaving its ``with`` block unpublished removes it."""

    def write(self, data: memoryview, /) -> None:
        """Append all of ``data``."""

    def publish(self) -> None:
        """Make the file durable and give it its name, replacing what had it. The last call."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class FileSystem(Protocol):
    """What Tideline asks of a file system. Implementations are thread-safe; streams are not."""

    def stat(self, location: Location) -> FileState:
        """Return the state of a regular file; NotFound where there is none, Refused where it is a directory."""

    def list(self, location: Location) -> Sequence[Entry]:
        """Return the children of a directory, sorted by name; NotFound where there is no such directory."""

    def open(self, location: Location) -> ReadStream:
        """Open a regular file for reading from its start."""

    def create(self, location: Location, size_bytes: int) -> WriteStream:
        """Start a file of ``size_bytes``; missing parent directories are made."""

    def remove(self, location: Location) -> None:
        """Remove a file; an absent one is no error."""

    def transfer(self, source: ReadStream, target: WriteStream) -> int:
        """Copy the next bytes inside the kernel and return how many; 0 at the end, or where that cannot be done here."""


Factory = Callable[[str, Mapping[str, object]], FileSystem]
"""Makes the file system of an authority from the options of its scheme; ConfigError where they are wrong."""


class FileSystems:
    """Finds the file system of a location; each (scheme, authority) is opened once, when first asked for."""

    def __init__(
        self, factories: Mapping[str, Factory], options: Mapping[str, Mapping[str, object]] | None = None
    ) -> None:
        self._factories = dict(factories)
        self._options = dict(options or {})
        self._open: dict[tuple[str, str], FileSystem] = {}
        self._lock = threading.Lock()
        if unknown := sorted(set(self._options) - set(self._factories)):
            raise ConfigError(
                "options for unknown file systems", schemes=unknown, known=sorted(self._factories)
            )

    def of(self, location: Location) -> FileSystem:
        """Return the file system of ``location``; ConfigError where its scheme has none or cannot be opened."""
        key = (location.scheme, location.authority)
        with self._lock:
            if key not in self._open:
                self._open[key] = self._start(location)
            return self._open[key]

    def _start(self, location: Location) -> FileSystem:
        factory = self._factories.get(location.scheme)
        if factory is None:
            raise ConfigError(
                "no file system for this scheme", scheme=location.scheme, known=sorted(self._factories)
            )
        return factory(location.authority, self._options.get(location.scheme, {}))


DIRECTORIES_MAX: Final = 4096


def sweep(file_systems: FileSystems, directory: Location) -> int:
    """Remove what dead processes left in ``directory`` and return how many files that were; an absent one has none."""
    files = file_systems.of(directory)
    try:
        leftovers = [entry.name for entry in files.list(directory) if is_leftover(entry.name)]
    except NotFound:
        return 0
    for name in leftovers:
        files.remove(directory.child(name))
    return len(leftovers)


class SweptDirectories:
    """The directories that this process has written to lately; those that it forgot are swept once more."""

    def __init__(self) -> None:
        self._known: OrderedDict[Location, None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, directory: Location) -> bool:
        """Whether ``directory`` is new here; from then on it is known."""
        with self._lock:
            if directory in self._known:
                return False
            self._known[directory] = None
            if len(self._known) > DIRECTORIES_MAX:
                self._known.popitem(last=False)
            return True
