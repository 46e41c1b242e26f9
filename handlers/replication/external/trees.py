"""Makes directories of the target equal to those of the source, several at a time.

The cycle compares and copies each directory independently (``directories``). It reports one with a failed
copy, and continues with the others. With copy jobs, directories that need copies wait until their files fill
one job, or all directories are compared. If they are too few for a job, this process copies them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final

from handlers.files.copying.jobs import CopyJobs, Outcome
from handlers.replication.external.directories import ComparedDirectory, DirectoryCopier, Tree, TreeCounts
from state.errors import Fenced, Interrupted, TidelineError


BATCH_FILES_MAX: Final = 100_000
BATCH_BYTES_MAX: Final = 1024**4
"""Maximum number of files and bytes of one job. They bound the memory, and how much an interrupted run
repeats.
"""


class TreeCopier:
    """Copies trees of one policy."""

    def __init__(
        self,
        directories: DirectoryCopier,
        *,
        workers: int,
        stopping: threading.Event,
        jobs: CopyJobs | None = None,
    ) -> None:
        self._directories = directories
        self._workers = workers
        self._stopping = stopping
        self._jobs = jobs
        self._batch: list[ComparedDirectory] = []

    @property
    def counts(self) -> TreeCounts:
        """Progress so far."""
        return self._directories.counts

    def copy(self, trees: Iterable[Tree]) -> None:
        """Copy all trees; raise Interrupted, Fenced, and ConfigError of jobs.
        Failures of directories are in ``counts``.
        """
        waiting = list(trees)
        running: set[Future[ComparedDirectory | None]] = set()
        with ThreadPoolExecutor(self._workers, thread_name_prefix="tideline-external") as threads:
            while waiting or running:
                while waiting and len(running) < self._workers:
                    running.add(threads.submit(self._begin, waiting.pop()))
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for compared in filter(None, (each.result() for each in done)):
                    waiting += compared.below
                    self._hold(compared, threads)
            self._copy_batch(threads)

    def _begin(self, tree: Tree) -> ComparedDirectory | None:
        """Compare a directory, and finish it if it need not wait for a job; None if nothing more is to be
        done.
        """
        compared = self._compare(tree)
        if compared is not None and not self._waits(compared):
            self._finish(compared)
        return compared

    def _waits(self, compared: ComparedDirectory) -> bool:
        return self._jobs is not None and bool(compared.copies)

    def _hold(self, compared: ComparedDirectory, threads: ThreadPoolExecutor) -> None:
        if not self._waits(compared):
            return
        self._batch.append(compared)
        files = sum(len(each.copies) for each in self._batch)
        if files >= BATCH_FILES_MAX or _count_bytes(self._batch) >= BATCH_BYTES_MAX:
            self._copy_batch(threads)

    def _copy_batch(self, threads: ThreadPoolExecutor) -> None:
        """Copy the files of all waiting directories, with a job if there are many files, and finish the
        directories.
        """
        batch, self._batch = self._batch, []
        copies = [copy for each in batch for copy in each.copies]
        if self._jobs is None or not copies:
            return
        job_outcomes: Sequence[Outcome] | None = None
        if self._jobs.suits(len(copies), _count_bytes(batch)):
            job_outcomes = self._jobs.run(
                copies, guard=self._directories.require_held, stopping=self._stopping
            )
        running = []
        first = 0
        for each in batch:
            outcomes = None if job_outcomes is None else job_outcomes[first : first + len(each.copies)]
            first += len(each.copies)
            running.append(threads.submit(self._finish, each, outcomes))
        for finished in running:
            finished.result()

    def _compare(self, tree: Tree) -> ComparedDirectory | None:
        if self._stopping.is_set():
            raise Interrupted("the copy of external tables was stopped", directory=str(tree.source))
        try:
            return self._directories.compare(tree)
        except TidelineError as error:
            self._report(tree, error)
            return None

    def _finish(self, compared: ComparedDirectory, outcomes: Sequence[Outcome] | None = None) -> None:
        """Finish a directory; a failure counts, and the copies of the directories below continue."""
        if self._stopping.is_set() and outcomes is None:
            raise Interrupted("the copy of external tables was stopped", directory=str(compared.tree.source))
        try:
            self._directories.finish(compared, outcomes)
        except TidelineError as error:
            self._report(compared.tree, error)

    def _report(self, tree: Tree, error: TidelineError) -> None:
        """Count the failure of a directory; raise it if it ends the cycle."""
        if isinstance(error, Fenced | Interrupted):
            raise error
        if self._stopping.is_set():
            raise Interrupted(
                "the copy of external tables was stopped", directory=str(tree.source)
            ) from error
        self._directories.report(tree, error)


def _count_bytes(directories: Iterable[ComparedDirectory]) -> int:
    return sum(copy.size_bytes for each in directories for copy in each.copies)
