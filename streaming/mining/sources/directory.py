"""Directories of query files, and the position of every file-based source.

The position has one entry for each existing file: its size at the last reading, the number of bytes of text
read, and the source's notes (such as the user of its application). Entries of removed files are dropped, so
the position is only as large as the directory; history servers delete old files to keep their directories
small. The source opens a file again only if its size has changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from handlers.files.filesystems import FileSystems, read_chunks
from handlers.files.paths import Location, parse_location
from state.errors import BadInput, LimitExceeded, NotFound, Refused, StateCorrupt


FILES_MAX: Final = 200_000
DEPTH_MAX: Final = 16
UNREADABLE_ERRORS: Final = (BadInput, Refused)
"""Errors that concern a single file. The file becomes a dead input, and reading continues with the next
one."""


@dataclass(slots=True)
class FileEntry:
    """The reading state of one file."""

    size_bytes: int = -1
    """-1 if the file was never read."""
    done_bytes: int = 0
    note: str = ""
    number: int = 0
    """A number that the source compares with, such as the id of the last execution or a day."""


@dataclass(slots=True)
class DirectoryPosition:
    """The entries by file name below the root."""

    entries: dict[str, FileEntry] = field(default_factory=dict)

    @classmethod
    def from_json(cls, position: str | None, source: str) -> Self:
        """Read a position; raise StateCorrupt for anything that ``to_json`` does not write."""
        if position is None:
            return cls()
        try:
            read = json.loads(position)["files"]
            entries = {str(name): _entry(*values) for name, values in read.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateCorrupt("a query source's position cannot be read", source=source) from error
        return cls(entries)

    def to_json(self) -> str:
        """Return the position as JSON."""
        files = {
            name: [each.size_bytes, each.done_bytes, each.note, each.number]
            for name, each in sorted(self.entries.items())
        }
        return json.dumps({"files": files}, separators=(",", ":"))

    def entry(self, name: str) -> FileEntry:
        """Return the entry of a file, after creating it if necessary."""
        return self.entries.setdefault(name, FileEntry())

    def keep_only(self, names: set[str]) -> None:
        """Keep only the entries of these files; the others have been removed."""
        for name in self.entries.keys() - names:
            del self.entries[name]


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory and everything below it."""

    root: Location
    file_systems: FileSystems

    @classmethod
    def open(cls, uri: str, file_systems: FileSystems) -> Self:
        """Return the directory at ``uri``; raise UnsafePath if it is not an absolute path."""
        root = parse_location(uri)
        file_systems.trust([root])
        return cls(root, file_systems)

    def files(self) -> list[tuple[str, Location, int]]:
        """Return the name below the root, the location and the size of every file except hidden ones, ordered
        by name.

        Raises NotFound if the directory does not exist, and LimitExceeded beyond FILES_MAX files or DEPTH_MAX
        levels.
        """
        files: list[tuple[str, Location, int]] = []
        for each in self._walk(self.root, "", DEPTH_MAX):
            if len(files) >= FILES_MAX:
                raise LimitExceeded(
                    "the directory of a query source contains too many files",
                    path=str(self.root),
                    files_max=FILES_MAX,
                )
            files.append(each)
        return files

    def modified_s(self, location: Location) -> int:
        """Return the modification time of a file; 0 if the file system does not provide it."""
        return (self.file_systems.of(location).stat(location).mtime_ns or 0) // 1_000_000_000

    def read(self, location: Location, size_bytes_max: int) -> bytes:
        """Return the content of a file.

        Raises LimitExceeded if it is too long, NotFound if it has been removed.
        """
        parts, size = [], 0
        for chunk in self.chunks(location):
            size += len(chunk)
            if size > size_bytes_max:
                raise LimitExceeded("a file is too large", path=str(location), limit_bytes=size_bytes_max)
            parts.append(chunk)
        return b"".join(parts)

    def chunks(self, location: Location) -> Iterator[bytes]:
        """Return the content of a file in chunks."""
        return read_chunks(self.file_systems.of(location), location)

    def _walk(self, directory: Location, prefix: str, depth: int) -> Iterator[tuple[str, Location, int]]:
        if depth == 0:
            raise LimitExceeded("the directory of a query source is nested too deeply", path=str(directory))
        for entry in self.file_systems.of(directory).list(directory):
            if entry.name.startswith((".", "_")):
                continue
            location = directory.child(entry.name)
            if not entry.is_directory:
                yield prefix + entry.name, location, entry.size_bytes
                continue
            try:
                yield from self._walk(location, f"{prefix}{entry.name}/", depth - 1)
            except NotFound:  # removed in the meantime
                continue


def _entry(size_bytes: int, done_bytes: int, note: str, number: int) -> FileEntry:
    return FileEntry(int(size_bytes), int(done_bytes), str(note), int(number))
