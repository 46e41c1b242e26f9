"""How far a directory of files has been read: the position of every file-based source.

One entry for each file that is there: its size when it was last looked at, how many bytes of its text are done, and what a source has
to remember about it (whose application it is). Files that are gone are forgotten, so the position is as large as the directory;
history servers keep theirs small by deleting what is old. A file whose size did not change is not opened again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from handlers.files.paths import parse_location
from state.errors import BadInput, LimitExceeded, NotFound, Refused, StateCorrupt


if TYPE_CHECKING:
    from collections.abc import Iterator

    from handlers.files.filesystems import FileSystems
    from handlers.files.paths import Location


FILES_MAX: Final = 200_000
DEPTH_MAX: Final = 16
UNREADABLE_ERRORS: Final = (BadInput, Refused)
"""What says that one file cannot be read, today or ever: it is dead, and the next one may be fine."""
_CHUNK_BYTES: Final = 1 << 20


@dataclass(slots=True)
class FileEntry:
    """One file's state."""

    size_bytes: int = -1
    """-1: never looked at."""
    done_bytes: int = 0
    note: str = ""
    number: int = 0
    """Something to compare with: the last execution's id, a time."""


@dataclass(slots=True)
class DirectoryPosition:
    """The entries by the files' names below the root."""

    entries: dict[str, FileEntry] = field(default_factory=dict)

    @classmethod
    def of(cls, position: str | None, source: str) -> Self:
        """Read a position; raise StateCorrupt where it is none of ours."""
        if position is None:
            return cls()
        try:
            read = json.loads(position)["files"]
            entries = {str(name): _entry(*values) for name, values in read.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateCorrupt("a query source's position cannot be read", source=source) from error
        return cls(entries)

    def position(self) -> str:
        """Write it as JSON."""
        files = {
            name: [each.size_bytes, each.done_bytes, each.note, each.number]
            for name, each in sorted(self.entries.items())
        }
        return json.dumps({"files": files}, separators=(",", ":"))

    def entry(self, name: str) -> FileEntry:
        """Return a file's entry, a new one where it has none."""
        return self.entries.setdefault(name, FileEntry())

    def forget_all_but(self, names: set[str]) -> None:
        """Forget files that are gone."""
        for name in self.entries.keys() - names:
            del self.entries[name]


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory, with everything below it."""

    root: Location
    file_systems: FileSystems

    @classmethod
    def at(cls, uri: str, file_systems: FileSystems) -> Self:
        """Raises UnsafePath where ``uri`` is no absolute place."""
        return cls(parse_location(uri), file_systems)

    def files(self) -> list[tuple[str, Location, int]]:
        """Return name below the root, place and size of every file, by name; hidden ones are left out.

        Raises NotFound where there is no such directory, LimitExceeded beyond FILES_MAX files or DEPTH_MAX levels.
        """
        found: list[tuple[str, Location, int]] = []
        for each in self._walk(self.root, "", DEPTH_MAX):
            if len(found) >= FILES_MAX:
                raise LimitExceeded(
                    "a query source's directory holds too many files",
                    path=str(self.root),
                    files_max=FILES_MAX,
                )
            found.append(each)
        return found

    def modified_s(self, location: Location) -> int:
        """Return when a file was last written; 0 where the file system does not know."""
        return (self.file_systems.of(location).stat(location).mtime_ns or 0) // 1_000_000_000

    def read(self, location: Location, size_bytes_max: int) -> bytes:
        """Return a file's content; raise LimitExceeded where it is longer, NotFound where it has vanished."""
        parts, size = [], 0
        for chunk in self.chunks(location):
            size += len(chunk)
            if size > size_bytes_max:
                raise LimitExceeded("a file is too large", path=str(location), limit_bytes=size_bytes_max)
            parts.append(chunk)
        return b"".join(parts)

    def chunks(self, location: Location) -> Iterator[bytes]:
        """Yield a file's content piece by piece."""
        buffer = memoryview(bytearray(_CHUNK_BYTES))
        with self.file_systems.of(location).open(location) as stream:
            while count := stream.readinto(buffer):
                yield bytes(buffer[:count])

    def _walk(self, directory: Location, prefix: str, depth: int) -> Iterator[tuple[str, Location, int]]:
        if depth == 0:
            raise LimitExceeded("a query source's directory is nested too deeply", path=str(directory))
        for entry in self.file_systems.of(directory).list(directory):
            if entry.name.startswith((".", "_")):
                continue
            location = directory.child(entry.name)
            if not entry.is_directory:
                yield prefix + entry.name, location, entry.size_bytes
                continue
            try:
                yield from self._walk(location, f"{prefix}{entry.name}/", depth - 1)
            except NotFound:  # cleaned up meanwhile
                continue


def _entry(size_bytes: int, done_bytes: int, note: str, number: int) -> FileEntry:
    return FileEntry(int(size_bytes), int(done_bytes), str(note), int(number))
