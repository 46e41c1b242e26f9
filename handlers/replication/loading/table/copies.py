"""The files of a loaded table: copied, verified, and remembered, so that a load that starts again does not repeat them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.files.copies import build_copy_task
from handlers.files.paths import parse_location
from handlers.files.table_listing import TableDirectory
from handlers.replication.loading.table.snapshot import SnapshotLost
from state.errors import BadInput, FileLost
from state.transactions.acid_directories import AcidDirectory


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.files.copies import CopyTask
    from handlers.files.paths import Location
    from handlers.files.table_listing import ListedFile
    from handlers.replication.loading.table.tools import LoadProgress, LoadTools


_AT_ONCE: Final = 500
"""Files that are submitted before their copies are waited for."""


class TableCopies:
    """The copies of one load."""

    def __init__(self, table: str, tools: LoadTools, progress: LoadProgress) -> None:
        self._table = table
        self._tools = tools
        self._progress = progress
        self._verified: set[tuple[str, str, int]] = set()
        """Source, target and size of the files that are verified. A writer never changes a file under its name."""
        self.files = 0
        self.size_bytes = 0

    def start_again(self) -> None:
        """Forget the counts, but not which files are verified."""
        self.files, self.size_bytes = 0, 0

    def copy(self, files: Sequence[ListedFile], location: str | None) -> None:
        """Copy the files of a directory to ``location`` and remove everything else there; raises SnapshotLost.

        Raises FilesUnavailable and other errors of copies.
        """
        if location is None:
            return
        tasks = [(file, build_copy_task(file.file, location, created=True)) for file in files]
        self._progress.listed(self._table, len(files), sum(file.size_bytes for file in files))
        for start in range(0, len(tasks), _AT_ONCE):
            self._tools.step()
            self._copy_some(tasks[start : start + _AT_ONCE])
        self._remove_others(location, {task.target_uri for _, task in tasks})

    def _copy_some(self, tasks: Sequence[tuple[ListedFile, CopyTask]]) -> None:
        pending = [
            (file, task, self._tools.copies.submit(task))
            for file, task in tasks
            if (file.file.uri, task.target_uri, file.size_bytes) not in self._verified
        ]
        try:
            self._tools.copies.wait([handle for _, _, handle in pending])
        except FileLost as error:
            raise SnapshotLost(f"a file vanished: {error.context.get('path')}") from error
        self._verified |= {(file.file.uri, task.target_uri, file.size_bytes) for file, task, _ in pending}
        self.files += len(tasks)
        self.size_bytes += sum(file.size_bytes for file, _ in tasks)
        self._progress.copied(self._table, len(tasks), sum(file.size_bytes for file, _ in tasks))

    def _remove_others(self, location: str, kept: set[str]) -> None:
        """Remove the files that are not in the snapshot, and directories of other writes.

        An empty ``base_0000009`` of an earlier try would hide older rows as soon as write id 9 is committed.
        """
        directory = TableDirectory(self._tools.files, location)
        self._tools.target.guard()
        for file in directory.read_files(directory.names):
            if file.file.uri not in kept:
                place = parse_location(file.file.uri)
                self._tools.files.of(place).remove(place)
        root = parse_location(location)
        for name in directory.directories:
            below = root.child(name)
            if _is_acid(name) and not any(_is_below(uri, below) for uri in kept):
                self._tools.files.of(below).remove_tree(below)


def _is_acid(name: str) -> bool:
    try:
        return AcidDirectory.parse(name) is not None
    except BadInput:
        return False


def _is_below(uri: str, directory: Location) -> bool:
    return uri.startswith(f"{directory}/")
