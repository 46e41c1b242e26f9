"""The files of a loaded table. The load verifies and remembers copies, so that a load that starts again does
not repeat them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from handlers.files.copying.copies import Copied, CopyTask, build_copy_task
from handlers.files.copying.jobs import SizedTask
from handlers.files.paths import Location, parse_location
from handlers.files.table_listing import ListedFile, TableDirectory
from handlers.replication.loading.table.snapshot import SnapshotLost
from handlers.replication.loading.table.tools import LoadProgress, LoadTools
from state.errors import FileLost, TidelineError
from state.pieces import in_pieces
from state.transactions.acid_directories import AcidDirectory


_AT_ONCE: Final = 500
"""Files to submit before waiting for their copies."""


@dataclass(frozen=True, slots=True)
class _Copy:
    file: ListedFile
    task: CopyTask

    @property
    def key(self) -> tuple[str, str, int]:
        """Source, target and size."""
        return self.file.file.uri, self.task.target_uri, self.file.size_bytes


class TableCopies:
    """The copies of one load."""

    def __init__(self, table: str, tools: LoadTools, progress: LoadProgress) -> None:
        self._table = table
        self._tools = tools
        self._progress = progress
        self._verified: set[tuple[str, str, int]] = set()
        """Source, target and size of the verified files. A writer never changes a file under its name."""
        self.files = 0
        self.size_bytes = 0

    def start_again(self) -> None:
        """Forget the counts, but not the verified files."""
        self.files, self.size_bytes = 0, 0

    def copy(self, listed: Iterable[tuple[Sequence[ListedFile], str | None]], table_root: str | None) -> None:
        """Copy the files of each directory to its location and remove everything else there;
        raises SnapshotLost.

        ``table_root`` is the table's own location on the target.

        Raises FilesUnavailable and other errors of copies. A job copies many files, if there are jobs.
        """
        places = [
            (
                location,
                [_Copy(file, build_copy_task(file.file, location, table_root=table_root)) for file in files],
            )
            for files, location in listed
            if location is not None
        ]
        for _, copies in places:
            self._progress.listed(self._table, len(copies), sum(copy.file.size_bytes for copy in copies))
        self._copy_by_job([copy for _, copies in places for copy in copies])
        for location, copies in places:
            for piece in in_pieces(copies, _AT_ONCE):
                self._tools.step()
                self._copy_some(piece)
            self._remove_others(location, {copy.task.target_uri for copy in copies})

    def _copy_by_job(self, copies: Sequence[_Copy]) -> None:
        """Copy the files that are not verified yet with a job, if there are many."""
        jobs = self._tools.jobs
        pending = [copy for copy in copies if copy.key not in self._verified]
        if jobs is None or not jobs.suits(len(pending), sum(copy.file.size_bytes for copy in pending)):
            return
        outcomes = jobs.run(
            [SizedTask(copy.task, copy.file.size_bytes) for copy in pending],
            guard=self._tools.target.guard,
            stopping=self._tools.stopping,
            beat=self._tools.beat,
        )
        failures: list[TidelineError] = []
        for copy, outcome in zip(pending, outcomes, strict=True):
            if isinstance(outcome, Copied):
                self._verified.add(copy.key)
            else:
                failures.append(outcome)
        if failures:
            _raise_failure(failures[0])

    def _copy_some(self, copies: Sequence[_Copy]) -> None:
        pending = [
            (copy, self._tools.copies.submit(copy.task)) for copy in copies if copy.key not in self._verified
        ]
        try:
            self._tools.copies.wait([handle for _, handle in pending])
        except TidelineError as error:
            _raise_failure(error)
        self._verified |= {copy.key for copy, _ in pending}
        size_bytes = sum(copy.file.size_bytes for copy in copies)
        self.files += len(copies)
        self.size_bytes += size_bytes
        self._progress.copied(self._table, len(copies), size_bytes)

    def _remove_others(self, location: str, kept: set[str]) -> None:
        """Remove the files that are not in the snapshot, and directories of other writes.

        An empty ``base_0000009`` of an earlier try would hide older rows after the commit of write id 9.
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
            if AcidDirectory.find(name) is not None and not any(_is_below(uri, below) for uri in kept):
                self._tools.files.of(below).remove_tree(below)


def _raise_failure(error: TidelineError) -> NoReturn:
    """Raise the error of a copy; a file that vanished is one of an outdated snapshot."""
    if isinstance(error, FileLost):
        raise SnapshotLost(f"a file vanished: {error.context.get('path')}") from error
    raise error


def _is_below(uri: str, directory: Location) -> bool:
    return uri.startswith(f"{directory}/")
