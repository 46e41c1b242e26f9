"""One directory of a tree: compares both sides, and makes the files of the target those of the source.

It lists again after the copies, because the source may change meanwhile. Several batches copy a large
directory, and the cycle records each batch when its copies are complete. A stopped run therefore continues
with its batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from handlers.events import SourceFile
from handlers.failpoints import failpoint
from handlers.files.copying.copies import Copied, CopyTask
from handlers.files.copying.jobs import Outcome, SizedTask
from handlers.files.copying.pool import CopyPool
from handlers.files.directories import require_reachable
from handlers.files.filesystems import Entry, FileSystems, is_hidden, is_unfinished
from handlers.files.paths import Location
from handlers.replication.external.records import CopyRecords
from state.errors import FileLost, LimitExceeded, NotFound, TidelineError, UnsafePath
from state.external.differences import DirectoryPlan, FileVersion, cut_batches, plan_directory, settle_copies


_DEPTH_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class Tree:
    """A directory tree of the source, and the directory of the target that gets its files."""

    source: Location
    target: Location
    depth: int = 0
    is_replaced: bool = False
    """Whether to remove files that the source's directory does not have (``TableDirectories``)."""


@dataclass(frozen=True, slots=True)
class TreeProblem:
    """A directory with an incomplete copy."""

    directory: str
    code: str
    reason: str


@dataclass(slots=True)
class TreeCounts:
    """Progress so far. Changes hold a lock; any thread may read it."""

    directories: int = 0
    missing: int = 0
    """Directories of the source that do not exist."""
    missing_roots: list[str] = field(default_factory=list)
    """Missing directories of tables, and of partitions outside of their tables."""
    files: int = 0
    """Files at the source."""
    copied: int = 0
    """Files written on the target."""
    size_bytes: int = 0
    """Bytes of these files."""
    removed: int = 0
    problems: list[TreeProblem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ComparedDirectory:
    """A directory after the comparison of its sides, with its plan."""

    tree: Tree
    before: Mapping[str, FileVersion]
    """The files at the source."""
    plan: DirectoryPlan
    copies: Sequence[SizedTask]
    """The copies of the plan, in its order."""
    below: Sequence[Tree]


class DirectoryCopier:
    """Compares and copies single directories; used by several threads."""

    def __init__(  # noqa: PLR0913 - the collaborators of a copy
        self,
        files: FileSystems,
        copies: CopyPool,
        records: CopyRecords,
        *,
        base: str,
        delete: bool,
        require_held: Callable[[], None],
    ) -> None:
        """``base`` is a directory above all targets, which must exist: otherwise the target's file system has
        no mount.

        ``require_held`` raises Fenced if another instance has taken over the target; called before removing
        files.
        """
        self._files = files
        self._copies = copies
        self._records = records
        self._base = base
        self._delete = delete
        self.require_held = require_held
        self._lock = threading.Lock()
        self.counts = TreeCounts()

    def compare(self, tree: Tree) -> ComparedDirectory | None:
        """Compare both sides; None if the source's directory does not exist and there is nothing to do."""
        if tree.depth > _DEPTH_MAX:
            raise LimitExceeded("directories are nested too deeply", path=str(tree.source), limit=_DEPTH_MAX)
        # List the target first: if replay adds a file to the target in between, the source has this file, or
        # has removed it.
        target, listed = _split_safe(tree, self._list_target(tree))[0], self._list_source(tree)
        delete = self._delete or tree.is_replaced
        if listed is None and (tree.depth == 0 or not delete):
            return None
        source = self._leave_out_unsafe(tree, listed or [])
        before = _versions(source)
        records = self._records.read(str(tree.source))
        plan = plan_directory(
            before, _versions(target), records, delete=delete, delete_others=tree.is_replaced
        )
        with self._lock:
            self.counts.directories += 1
            self.counts.files += len(before)
        copies = [SizedTask(self._task(tree, name), before[name].size_bytes) for name in plan.copied]
        return ComparedDirectory(tree, before, plan, copies, self._trees_below(tree, source, target))

    def finish(self, compared: ComparedDirectory, outcomes: Sequence[Outcome] | None = None) -> None:
        """Copy, remove and record by the plan; ``outcomes`` are the outcomes of the plan's copies, if a job
        has made them.

        Raises the first failure of a copy after everything else is done. If all copies of a batch fail, it
        does not try the next.
        """
        tree, plan = compared.tree, compared.plan
        failure: TidelineError | None = None
        if outcomes is not None:
            failure = self._settle(compared, dict(zip(plan.copied, outcomes, strict=True)))
        else:
            for names in cut_batches([(name, compared.before[name].size_bytes) for name in plan.copied]):
                by_name = self._copy_files(tree, names)
                failure = self._settle(compared, by_name) or failure
                if all(isinstance(each, TidelineError) for each in by_name.values()):
                    break
        self._remove(tree, plan.removed)
        self._records.write(str(tree.source), {}, (*plan.removed, *plan.forgotten))
        if failure is not None:
            raise failure

    def report(self, tree: Tree, error: TidelineError) -> None:
        """Count a directory with an incomplete copy."""
        with self._lock:
            self.counts.problems.append(TreeProblem(str(tree.source), error.code, str(error)))

    def _leave_out_unsafe(self, tree: Tree, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries with usable names, which can be copied; report the others."""
        safe, errors = _split_safe(tree, entries)
        if errors:
            others = f" (and {len(errors) - 1} more in this directory)" if len(errors) > 1 else ""
            problem = TreeProblem(str(tree.source), errors[0].code, f"{errors[0]}{others}")
            with self._lock:
                self.counts.problems.append(problem)
        return safe

    def _task(self, tree: Tree, name: str) -> CopyTask:
        return CopyTask(SourceFile(str(tree.source.child(name))), str(tree.target.child(name)), self._base)

    def _copy_files(self, tree: Tree, names: Sequence[str]) -> dict[str, Outcome]:
        """Copy files; all copies have ended when this returns."""
        handles = [self._copies.submit(self._task(tree, name)) for name in names]
        outcomes: dict[str, Outcome] = {}
        for name, handle in zip(names, handles, strict=True):
            try:
                (outcomes[name],) = self._copies.wait([handle])
            except TidelineError as error:
                outcomes[name] = error
        return outcomes

    def _settle(self, compared: ComparedDirectory, outcomes: Mapping[str, Outcome]) -> TidelineError | None:
        """Record the copied files; return the first failure of the others."""
        tree = compared.tree
        copied = {name: not each.skipped for name, each in outcomes.items() if isinstance(each, Copied)}
        failpoint("external.after-copies")
        settled = settle_copies(
            copied,
            compared.before,
            _versions(self._list_source(tree) or []),
            _versions(self._list_target(tree)),
        )
        self._remove(tree, settled.withdrawn)
        self._records.write(str(tree.source), settled.records, settled.withdrawn)
        with self._lock:
            self.counts.copied += sum(copied.values())
            self.counts.size_bytes += sum(
                each.size_bytes for each in outcomes.values() if isinstance(each, Copied) and not each.skipped
            )
        failures = (each for each in outcomes.values() if isinstance(each, TidelineError))
        return next(
            (each for each in failures if not isinstance(each, FileLost)), None
        )  # a lost file has vanished

    def _remove(self, tree: Tree, names: Sequence[str]) -> None:
        if names:
            self.require_held()
        for name in names:
            location = tree.target.child(name)
            self._files.of(location).remove(location)
        with self._lock:
            self.counts.removed += len(names)

    def _trees_below(self, tree: Tree, source: Iterable[Entry], target: Iterable[Entry]) -> list[Tree]:
        """Return the subdirectories; with deletions, those that only the target has, too."""
        names = {entry.name for entry in source if entry.is_directory}
        if self._delete or tree.is_replaced:
            names |= {entry.name for entry in target if entry.is_directory}
        return [
            Tree(tree.source.child(name), tree.target.child(name), tree.depth + 1, tree.is_replaced)
            for name in sorted(names, reverse=True)
        ]

    def _list_source(self, tree: Tree) -> list[Entry] | None:
        """Return the visible entries of the source's directory; None if it is missing on a file system that
        is present.
        """
        location = self._copies.allowed.require_directory(tree.source)
        try:
            return [entry for entry in self._list(location) if not is_unfinished(entry.name)]
        except NotFound:
            require_reachable(self._files, location, self._copies.allowed)
            with self._lock:
                self.counts.missing += 1
                if tree.depth == 0:
                    self.counts.missing_roots.append(str(tree.source))
            return None

    def _list_target(self, tree: Tree) -> list[Entry]:
        try:
            return self._list(tree.target)
        except NotFound:
            return []

    def _list(self, location: Location) -> list[Entry]:
        return [entry for entry in self._files.of(location).list(location) if not is_hidden(entry.name)]


def _split_safe(tree: Tree, entries: Iterable[Entry]) -> tuple[list[Entry], list[UnsafePath]]:
    """Return the entries whose names are safe on both sides, and the reasons why the others are not."""
    safe: list[Entry] = []
    errors: list[UnsafePath] = []
    for entry in entries:
        try:
            tree.source.child(entry.name)
            tree.target.child(entry.name)
        except UnsafePath as error:
            errors.append(error)
        else:
            safe.append(entry)
    return safe, errors


def _versions(entries: Iterable[Entry]) -> dict[str, FileVersion]:
    return {
        entry.name: FileVersion(entry.size_bytes, entry.mtime_ns, entry.identity)
        for entry in entries
        if not entry.is_directory
    }
