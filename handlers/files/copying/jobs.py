"""Copies of many files by processes outside of this one:
the port that loads and cycles use, and the fence of such a job.

A process of a job can outlive the one that started it, on another machine, and must not publish files then.
Each job therefore has a *fence*: a hidden file on the target that exists while the job may write. A copy
looks for it right before it appears under its name. The starter removes it when the job has ended, for any
reason. After a kill of the starter, the next process that copies into the directory removes it like any other
leftover.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from handlers.files.copying.copies import Copied, CopyTask
from handlers.files.copying.pool import CopyCounters
from handlers.files.directories import require_directory
from handlers.files.filesystems import FileSystems, make_temporary_name
from handlers.files.paths import Location, parse_location, printable
from state.errors import FilesUnavailable, NotFound, TidelineError


Outcome = Copied | TidelineError
"""The outcome of the copy of one file."""


@dataclass(frozen=True, slots=True)
class SizedTask:
    """A copy, and the size that its source had when listed."""

    task: CopyTask
    size_bytes: int


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The progress of a job."""

    files: int
    """Files whose copies have finished, including failed ones."""
    files_listed: int
    size_bytes: int
    size_bytes_listed: int
    began_s: float
    """Unix time."""
    bytes_per_s: float = 0.0
    left_s: float | None = None
    """Estimate; None before the first file."""
    failed: int = 0
    restarts: int = 0
    """Number of restarts of the job's processes."""


class CopyJobs(Protocol):
    """Runs jobs. Implementations are thread-safe."""

    @property
    def running(self) -> JobStatus | None:
        """The progress of the job that runs."""

    @property
    def counters(self) -> CopyCounters:
        """The totals of all jobs so far."""

    def suits(self, files: int, size_bytes: int) -> bool:
        """Return whether a job should copy this number of files; otherwise the caller's own threads copy
        them.
        """

    def run(
        self,
        copies: Sequence[SizedTask],
        *,
        guard: Callable[[], None],
        stopping: threading.Event,
        beat: Callable[[], None] = lambda: None,
    ) -> Sequence[Outcome]:
        """Copy all files and return their outcomes in the same order, once all writing has stopped.

        A job that its environment ended gives FilesUnavailable for the files that it did not reach, never
        FileLost. Calls ``guard`` repeatedly; its error ends the job. Raises that error, Interrupted once
        ``stopping`` is set, and ConfigError.
        """


def create_fence(file_systems: FileSystems, directory: Location) -> Location:
    """Create a fence in ``directory``, which must exist; raise FilesUnavailable."""
    require_directory(file_systems, directory)
    fence = directory.child(make_temporary_name())
    with file_systems.of(fence).create(fence, 0) as writer:
        writer.publish()
    file_systems.of(fence).settle(directory)
    return fence


def remove_fence(file_systems: FileSystems, fence: Location) -> None:
    """Remove a fence; after this, no process of its job publishes anything. Raises FilesUnavailable."""
    file_systems.of(fence).remove(fence)


def require_fence(file_systems: FileSystems, fence_uri: str) -> None:
    """Raise FilesUnavailable if the fence is gone."""
    fence = parse_location(fence_uri)
    try:
        file_systems.of(fence).stat(fence)
    except NotFound as error:
        raise FilesUnavailable("the copy job has ended", fence=printable(fence_uri)) from error
