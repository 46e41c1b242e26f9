"""Lists the files of tables copied as a whole, with their sizes.

Unlike a listing for replay, this one must be complete: a directory that vanishes while it is read is an
error, because its rows would be missing. The caller then starts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from handlers.events import SourceFile
from handlers.files.acid_markers import is_ignored_base, read_markers
from handlers.files.directories import require_reachable
from handlers.files.filesystems import Entry, FileSystems, is_hidden, is_unfinished
from handlers.files.paths import AllowedRoots, Location, is_safe_name, parse_location
from state.errors import LimitExceeded, NotFound
from state.transactions.acid_directories import AcidDirectory


FILES_MAX: Final = 1_000_000
_DEPTH_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file and its size;
    ``file.subdir`` is its directory relative to the table's or partition's location.
    """

    file: SourceFile
    size_bytes: int


class TableDirectory:
    """The directory of a table or partition, listed once when opened; a missing one is empty.

    At the source (with ``allowed``), it leaves out unfinished files.
    """

    def __init__(
        self,
        file_systems: FileSystems,
        root_uri: str,
        *,
        allowed: AllowedRoots | None = None,
        skips_unsafe: bool = False,
    ) -> None:
        """List the directory; raise UnsafePath if it is not in ``allowed``, and FilesUnavailable.

        With ``skips_unsafe``, it leaves out unusable names; otherwise ``read_files`` raises UnsafePath for
        them.
        """
        root = parse_location(root_uri)
        self._root = root if allowed is None else allowed.require_directory(root)
        self._file_systems = file_systems
        self._allowed = allowed
        self._skips_unsafe = skips_unsafe
        self._entries = {entry.name: entry for entry in self._list(self._root)}

    @property
    def directories(self) -> Sequence[str]:
        """The names of the visible directories directly below the root."""
        return [name for name, entry in self._entries.items() if entry.is_directory]

    @property
    def names(self) -> Sequence[str]:
        """The names of everything visible directly below the root."""
        return list(self._entries)

    def read_acid_directories(self) -> list[AcidDirectory]:
        """Return those of the directories that belong to writes and compactions,
        with their markers; raises BadInput for a malformed name.
        """
        parsed = (AcidDirectory.parse(name) for name in self.directories)
        files = self._file_systems.of(self._root)
        return read_markers(files, self._root, parsed)

    def is_ignored_base(self, name: str) -> bool:
        """Return whether Hive ignores the base ``name``; raises NotFound if it has vanished."""
        directory = self._root.child(name)
        return is_ignored_base(self._file_systems.of(directory).list(directory))

    def read_files(self, names: Iterable[str]) -> list[ListedFile]:
        """Return the visible files among ``names`` and below those that are directories, in order.

        Raises NotFound if one of the directories has vanished, and LimitExceeded.
        """
        files: list[ListedFile] = []
        for name in names:
            entry = self._entries[name]
            for file in self._walk(name, 1) if entry.is_directory else [_to_file(self._root, "", entry)]:
                if len(files) >= FILES_MAX:
                    raise LimitExceeded("a table has too many files", path=str(self._root), limit=FILES_MAX)
                files.append(file)
        return files

    def _list(self, directory: Location) -> list[Entry]:
        try:
            entries = self._file_systems.of(directory).list(directory)
        except NotFound:
            if directory != self._root:
                raise
            if self._allowed is not None:
                require_reachable(self._file_systems, directory, self._allowed)
            return []
        return [entry for entry in entries if not self._is_left_out(entry.name)]

    def _is_left_out(self, name: str) -> bool:
        if is_hidden(name) or (self._allowed is not None and is_unfinished(name)):
            return True
        return self._skips_unsafe and not is_safe_name(name)

    def _walk(self, subdir: str, depth: int) -> Iterator[ListedFile]:
        if depth > _DEPTH_MAX:
            raise LimitExceeded("directories are nested too deeply", path=str(self._root), limit=_DEPTH_MAX)
        directory = self._root.join(subdir)
        for entry in self._list(directory):
            if entry.is_directory:
                yield from self._walk(f"{subdir}/{entry.name}", depth + 1)
            else:
                yield _to_file(directory, subdir, entry)


def _to_file(directory: Location, subdir: str, entry: Entry) -> ListedFile:
    return ListedFile(SourceFile(str(directory.child(entry.name)), subdir=subdir), entry.size_bytes)
