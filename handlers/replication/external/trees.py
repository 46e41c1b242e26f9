"""Makes directories of the target equal to those of the source, file by file and several at a time.

Each directory is listed on both sides, compared (``state.external.differences``), copied, and listed again, because the source may
change meanwhile. A large directory is copied in batches, and the records of a batch are written when its copies have ended. So a run that
was stopped continues with the batch where it was. A directory whose files cannot be copied is reported, and the others are copied nevertheless.
"""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from handlers.events import SourceFile
from handlers.failpoints import failpoint
from handlers.files.copies import CopyTask
from handlers.files.filesystems import is_hidden
from handlers.files.reachable import require_reachable
from state.errors import Fenced, FileLost, Interrupted, LimitExceeded, NotFound, TidelineError
from state.external.differences import FileVersion, cut_batches, plan_directory, settle_copies


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Future

    from handlers.files.filesystems import Entry, FileSystems
    from handlers.files.paths import Location
    from handlers.files.pool import CopyPool
    from handlers.replication.external.records import CopyRecords


_DEPTH_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class Tree:
    """A directory of the source and the one of the target that gets its files, with everything below."""

    source: Location
    target: Location
    depth: int = 0


@dataclass(frozen=True, slots=True)
class TreeProblem:
    """A directory that could not be copied completely."""

    directory: str
    code: str
    reason: str


@dataclass(slots=True)
class TreeCounts:
    """What was done so far; changed under a lock, read by any thread."""

    directories: int = 0
    missing: int = 0
    """Directories of the source that do not exist."""
    files: int = 0
    """Files at the source."""
    copied: int = 0
    """Files that were written on the target."""
    removed: int = 0
    problems: list[TreeProblem] = field(default_factory=list)


class TreeCopier:
    """Copies trees of one policy."""

    def __init__(  # noqa: PLR0913 - the collaborators of a copy
        self,
        files: FileSystems,
        copies: CopyPool,
        records: CopyRecords,
        *,
        base: str,
        delete: bool,
        workers: int,
        require_held: Callable[[], None],
        stopping: threading.Event,
    ) -> None:
        """``base`` is a directory above all targets, which must exist: otherwise the target's file system is not mounted.

        ``require_held`` raises Fenced if another instance has taken over the target; called before files are removed.
        """
        self._files = files
        self._copies = copies
        self._records = records
        self._base = base
        self._delete = delete
        self._workers = workers
        self._require_held = require_held
        self._stopping = stopping
        self._lock = threading.Lock()
        self.counts = TreeCounts()

    def copy(self, trees: Iterable[Tree]) -> None:
        """Copy all trees; raise Interrupted and Fenced. Failures of directories are in ``counts``."""
        waiting = list(trees)
        running: set[Future[Sequence[Tree]]] = set()
        with ThreadPoolExecutor(self._workers, thread_name_prefix="tideline-external") as threads:
            while waiting or running:
                while waiting and len(running) < self._workers:
                    running.add(threads.submit(self._copy_directory, waiting.pop()))
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for each in done:
                    waiting += each.result()

    def _copy_directory(self, tree: Tree) -> Sequence[Tree]:
        """Copy the files directly in one directory; return the trees below it."""
        if self._stopping.is_set():
            raise Interrupted("the copy of external tables was stopped", directory=str(tree.source))
        try:
            return self._compare_and_copy(tree)
        except (Fenced, Interrupted):
            raise
        except TidelineError as error:
            if self._stopping.is_set():
                raise Interrupted(
                    "the copy of external tables was stopped", directory=str(tree.source)
                ) from error
            self._report(tree, error)
            return ()

    def _compare_and_copy(self, tree: Tree) -> Sequence[Tree]:
        if tree.depth > _DEPTH_MAX:
            raise LimitExceeded("directories are nested too deeply", path=str(tree.source), limit=_DEPTH_MAX)
        source, target = self._list_source(tree), self._list_target(tree)
        if source is None:
            if tree.depth == 0 or not self._delete:
                return ()
            source = []
        before, present = _versions(source), _versions(target)
        directory = str(tree.source)
        records = self._records.read(directory)
        plan = plan_directory(before, present, records, delete=self._delete)
        with self._lock:
            self.counts.directories += 1
            self.counts.files += len(before)
        for names in cut_batches([(name, before[name].size_bytes) for name in plan.copied]):
            self._copy_files(tree, names, before)
        self._remove(tree, plan.removed)
        self._records.write(directory, {}, (*plan.removed, *plan.forgotten))
        return self._trees_below(tree, source, target)

    def _copy_files(self, tree: Tree, names: Sequence[str], before: dict[str, FileVersion]) -> None:
        """Copy files and record them; the first failure is raised after all others were copied and recorded."""
        handles = [
            self._copies.submit(
                CopyTask(SourceFile(str(tree.source.child(name))), str(tree.target.child(name)), self._base)
            )
            for name in names
        ]
        copied: dict[str, bool] = {}
        failure: TidelineError | None = None
        for name, handle in zip(names, handles, strict=True):
            try:
                (result,) = self._copies.wait([handle])
                copied[name] = not result.skipped
            except FileLost:
                continue  # it vanished
            except TidelineError as error:
                failure = failure or error
        failpoint("external.after-copies")
        settled = settle_copies(
            copied, before, _versions(self._list_source(tree) or []), _versions(self._list_target(tree))
        )
        self._remove(tree, settled.withdrawn)
        self._records.write(str(tree.source), settled.records, settled.withdrawn)
        with self._lock:
            self.counts.copied += sum(copied.values())
        if failure is not None:
            raise failure

    def _remove(self, tree: Tree, names: Sequence[str]) -> None:
        if names:
            self._require_held()
        for name in names:
            location = tree.target.child(name)
            self._files.of(location).remove(location)
        with self._lock:
            self.counts.removed += len(names)

    def _trees_below(self, tree: Tree, source: Iterable[Entry], target: Iterable[Entry]) -> list[Tree]:
        """Return the directories below; with deletions, also those that only the target has."""
        names = {entry.name for entry in source if entry.is_directory}
        if self._delete:
            names |= {entry.name for entry in target if entry.is_directory}
        return [
            Tree(tree.source.child(name), tree.target.child(name), tree.depth + 1)
            for name in sorted(names, reverse=True)
        ]

    def _list_source(self, tree: Tree) -> list[Entry] | None:
        """Return what is visible in the source's directory; None if it does not exist although its file system is there."""
        location = self._copies.allowed.require_directory(tree.source)
        try:
            return self._list(location)
        except NotFound:
            require_reachable(self._files, location, self._copies.allowed)
            with self._lock:
                self.counts.missing += 1
            return None

    def _list_target(self, tree: Tree) -> list[Entry]:
        try:
            return self._list(tree.target)
        except NotFound:
            return []

    def _list(self, location: Location) -> list[Entry]:
        return [entry for entry in self._files.of(location).list(location) if not is_hidden(entry.name)]

    def _report(self, tree: Tree, error: TidelineError) -> None:
        with self._lock:
            self.counts.problems.append(TreeProblem(str(tree.source), error.code, str(error)))


def _versions(entries: Iterable[Entry]) -> dict[str, FileVersion]:
    return {
        entry.name: FileVersion(entry.size_bytes, entry.mtime_ns, entry.identity)
        for entry in entries
        if not entry.is_directory
    }
