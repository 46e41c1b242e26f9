"""One cycle: lists the directories of a policy's external tables, writes the list, and copies the
differences.

The location of a file on the target depends only on its location at the source: ``external_base`` and the
source's path. So a cycle need not coordinate the location of a table with replay. A table that moved at the
source gets its files in the new directory before or after replay moves the table there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from handlers.files.paths import parse_location
from handlers.replication.external.directories import DirectoryCopier, Tree, TreeCounts, TreeProblem
from handlers.replication.external.trees import TreeCopier
from handlers.replication.target.external_tables import expects_rows
from handlers.replication.target.objects import map_external_location
from state.errors import BadInput, FilesUnavailable, NotFound, TidelineError
from state.external.directories import (
    find_collisions,
    format_directories,
    is_below,
    select_outermost,
    select_replaced,
)


if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from handlers.files.copying.pool import CopyPool
    from handlers.metastore.client import Metastore
    from handlers.replication.context import Context
    from handlers.replication.external.records import CopyRecords
    from state.external.directories import TableDirectories


DIRECTORY_LIST = "_external_tables_info"
"""Name of the file with the list of directories, as in Hive."""


@dataclass(frozen=True, slots=True)
class ExternalSettings:
    """How to copy the files of external tables."""

    every_s: float
    delete: bool
    workers: int
    """Directories to compare, and files to copy, at the same time."""
    list_directory: Path | None = None
    """Directory for the list of directories."""


@dataclass(frozen=True, slots=True)
class TableProblem:
    """Why the files of a table are not all on the target."""

    tables: tuple[str, ...]
    directory: str | None
    code: str
    reason: str


@dataclass(slots=True)
class CycleProgress:
    """A cycle while it runs, and its result. Any thread may read it."""

    began_s: float
    tables: int = 0
    directories: int = 0
    """Directories listed for copying, without nested ones."""
    counts: TreeCounts = field(default_factory=TreeCounts)
    problems: Sequence[TableProblem] = ()
    ended_s: float | None = None
    error: TidelineError | None = None
    """The error that ended the cycle early."""

    @property
    def is_complete(self) -> bool:
        """Whether everything that was at the source when the cycle began is on the target."""
        return self.ended_s is not None and self.error is None and not self.problems


class ExternalCycle:
    """One cycle of a policy; runs in its own thread, with its own clients and copy threads."""

    def __init__(  # noqa: PLR0913 - the collaborators of a cycle
        self,
        context: Context,
        settings: ExternalSettings,
        records: CopyRecords,
        *,
        source: Metastore,
        target: Metastore,
        copies: CopyPool,
        stopping: threading.Event,
    ) -> None:
        self._context = context
        self._settings = settings
        self._records = records
        self._source = source
        self._target = target
        self._copies = copies
        self._stopping = stopping
        self.progress = CycleProgress(time.time())

    def run(self) -> None:
        """Copy the differences; the result is in ``progress``. Raises transient errors, Interrupted and
        Fenced.
        """
        progress, base = self.progress, self._context.policy.external_base
        assert base is not None
        self._records.recover()
        tables, problems = self._list_tables()
        self._write_list(tables)
        trees, refused = self._plan(tables)
        progress.tables, progress.directories = len(tables), len(trees)
        problems += refused
        directories = DirectoryCopier(
            self._context.files,
            self._copies,
            self._records,
            base=base,
            delete=self._settings.delete,
            require_held=self._context.target_position.require_held,
        )
        copier = TreeCopier(
            directories, workers=self._settings.workers, stopping=self._stopping, jobs=self._context.jobs
        )
        progress.counts = copier.counts
        try:
            copier.copy(trees)
        finally:
            progress.problems = (*problems, *(_attribute(each, tables) for each in copier.counts.problems))
        progress.problems = (*progress.problems, *self._find_missing(tables, copier.counts))
        progress.ended_s = time.time()
        if progress.is_complete:
            self._records.complete(int(progress.began_s))

    def _list_tables(self) -> tuple[list[TableDirectories], list[TableProblem]]:
        """Return the followed external tables on the target; the load of a waiting table copies its files.

        Leaves out tables without rows (``metadata_only``).
        """
        policy, loads = self._context.policy, self._context.tables.loads
        names = [
            name
            for name in self._target.table_names(policy.target_db)
            if self._context.in_scope(policy.source_db, name) and policy.copies_rows(name)
        ]
        tables, errors = self._context.external.refresh(self._source, policy.source_db, names, loads.get)
        return tables, [TableProblem((name,), None, error.code, str(error)) for name, error in errors.items()]

    def _write_list(self, tables: Iterable[TableDirectories]) -> None:
        """Write the list of directories atomically: a reader sees the old or the new list. Raises
        FilesUnavailable.
        """
        if self._settings.list_directory is None:
            return
        path = self._settings.list_directory / DIRECTORY_LIST
        draft = path.with_suffix(".tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(format_directories(tables))
            draft.replace(path)
        except OSError as error:
            raise FilesUnavailable(
                "the list of the directories of external tables cannot be written",
                path=str(path),
                reason=error.strerror,
                hint="Check the state volume: it may be full, read-only or gone.",
            ) from error

    def _find_missing(self, tables: Iterable[TableDirectories], counts: TreeCounts) -> Iterator[TableProblem]:
        """Yield the tables without a directory for which the source has statistics or partitions with
        rows.
        """
        db, missing = self._context.policy.source_db, set(counts.missing_roots)
        for each in tables:
            if each.root in missing and expects_rows(self._source, db, each.table, each.root):
                reason = (
                    "the directory does not exist, but the source has statistics or partitions of the table"
                )
                yield TableProblem((each.table,), each.root, NotFound.code, reason)

    def _plan(self, tables: Sequence[TableDirectories]) -> tuple[list[Tree], list[TableProblem]]:
        """Return each directory once with its place on the target, and the problems of the directories
        without a place.
        """
        problems: list[TableProblem] = []
        places: dict[str, str] = {}
        for directory in select_outermost(each for table in tables for each in table.all):
            try:
                self._copies.allowed.require_directory(parse_location(directory))
                mapped = map_external_location(directory, self._context.policy)
                assert mapped is not None
                places[directory] = str(parse_location(mapped))
            except BadInput as error:
                problems.append(_attribute(TreeProblem(directory, error.code, str(error)), tables))
        for directory in sorted(find_collisions(places)):
            reason = f"another directory of the source is also copied to {places.pop(directory)}"
            problems.append(_attribute(TreeProblem(directory, "target-diverged", reason), tables))
        replaced = select_replaced(tables)
        trees = [
            Tree(parse_location(source), parse_location(target), is_replaced=source in replaced)
            for source, target in places.items()
        ]
        return trees, problems


def _attribute(problem: TreeProblem, tables: Iterable[TableDirectories]) -> TableProblem:
    """Return the problem with the tables that it concerns."""
    concerned = tuple(
        each.table
        for each in tables
        if any(
            is_below(problem.directory, directory) or is_below(directory, problem.directory)
            for directory in each.all
        )
    )
    return TableProblem(concerned, problem.directory, problem.code, problem.reason)
