"""The files of a loaded table. The load verifies and remembers copies, so that a load that starts again does
not repeat them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from handlers.files.copying.copies import Copied, CopyTask, build_copy_task
from handlers.files.copying.jobs import SizedTask
from handlers.files.paths import parse_location
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
    """A file, and the directory of its copy."""

    file: ListedFile
    location: str

    @property
    def key(self) -> tuple[str, str, int]:
        """Identifies the copy: source, directory and size."""
        return self.file.file.uri, self.location, self.file.size_bytes


class TableCopies:
    """The copies of one load."""

    def __init__(self, table: str, tools: LoadTools, progress: LoadProgress) -> None:
        self._table = table
        self._tools = tools
        self._progress = progress
        self._verified: set[tuple[str, str, int]] = set()
        """Keys of the verified files. A writer never changes a file under its name."""
        self.files = 0
        self.size_bytes = 0

    def start_again(self) -> None:
        """Forget the counts, but not the verified files."""
        self.files, self.size_bytes = 0, 0

    def copy(self, listed: Sequence[tuple[Sequence[ListedFile], str | None]], table_root: str | None) -> None:
        """Copy the files of each directory to its location and remove everything else there;
        raises SnapshotLost.

        ``table_root`` is the table's own location on the target.

        Raises FilesUnavailable and other errors of copies. If jobs are available, a job copies large numbers
        of files.
        """
        kept: dict[str, set[str]] = {location: set() for _, location in listed if location is not None}
        copies = [
            _Copy(file, location) for files, location in listed if location is not None for file in files
        ]
        self._progress.listed(self._table, len(copies), sum(copy.file.size_bytes for copy in copies))
        self._copy_by_job(copies, table_root)
        for piece in in_pieces(copies, _AT_ONCE):
            self._tools.step()
            for location, target_uri in self._copy_some(piece, table_root):
                kept[location].add(target_uri)
        for location, target_uris in kept.items():
            self._tools.step()
            self._remove_others(location, target_uris)

    def _copy_by_job(self, copies: Sequence[_Copy], table_root: str | None) -> None:
        """Copy the files that are not verified yet with a job, if there are many."""
        jobs = self._tools.jobs
        pending = [copy for copy in copies if copy.key not in self._verified]
        if jobs is None or not jobs.suits(len(pending), sum(copy.file.size_bytes for copy in pending)):
            return
        outcomes = jobs.run(
            [SizedTask(_build_task(copy, table_root), copy.file.size_bytes) for copy in pending],
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

    def _copy_some(self, copies: Sequence[_Copy], table_root: str | None) -> list[tuple[str, str]]:
        """Copy the files that are not verified yet; return the directory and the target of each file.

        Tasks are built one at a time: those of many thousands of files at once would hold up replay, which
        needs Python's lock too.
        """
        targets, pending = [], []
        for copy in copies:
            task = _build_task(copy, table_root)
            targets.append((copy.location, task.target_uri))
            if copy.key not in self._verified:
                pending.append((copy, self._tools.copies.submit(task)))
        try:
            self._tools.copies.wait([handle for _, handle in pending])
        except TidelineError as error:
            _raise_failure(error)
        self._verified |= {copy.key for copy, _ in pending}
        size_bytes = sum(copy.file.size_bytes for copy in copies)
        self.files += len(copies)
        self.size_bytes += size_bytes
        self._progress.copied(self._table, len(copies), size_bytes)
        return targets

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
        names = {uri.removeprefix(f"{root}/").partition("/")[0] for uri in kept}
        for name in directory.directories:
            if AcidDirectory.find(name) is not None and name not in names:
                self._tools.files.of(root).remove_tree(root.child(name))


def _build_task(copy: _Copy, table_root: str | None) -> CopyTask:
    return build_copy_task(copy.file.file, copy.location, table_root=table_root)


def _raise_failure(error: TidelineError) -> NoReturn:
    """Raise the error of a copy; a file that vanished is one of an outdated snapshot."""
    if isinstance(error, FileLost):
        raise SnapshotLost(f"a file vanished: {error.context.get('path')}") from error
    raise error
