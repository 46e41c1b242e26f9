"""Copy jobs that run in the calling thread, and that a test can let fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from handlers.files.copying.copies import Copier
from handlers.files.copying.jobs import JobStatus, Outcome, SizedTask
from handlers.files.copying.pool import CopyCounters
from state.errors import TidelineError


@dataclass
class LocalJobs:
    """Jobs for ``files_min`` files and more."""

    copier: Copier
    files_min: int = 1
    failing: dict[str, TidelineError] = field(default_factory=dict)
    """Outcomes by the name of the file."""
    ran: list[list[str]] = field(default_factory=list)
    """The sources of each job."""
    after: Callable[[], object] = lambda: None
    running: JobStatus | None = None
    counters: CopyCounters = field(default_factory=CopyCounters)

    def suits(self, files: int, size_bytes: int) -> bool:  # noqa: ARG002 - part of the port
        return files >= self.files_min

    def run(
        self,
        copies: Sequence[SizedTask],
        *,
        guard: Callable[[], None],
        stopping: threading.Event,  # noqa: ARG002 - part of the port
        beat: Callable[[], None] = lambda: None,  # noqa: ARG002 - likewise
    ) -> Sequence[Outcome]:
        guard()
        self.ran.append([copy.task.source.uri for copy in copies])
        outcomes = [self._copy(copy) for copy in copies]
        self.after()
        return outcomes

    def _copy(self, copy: SizedTask) -> Outcome:
        name = copy.task.source.uri.rpartition("/")[2]
        if name in self.failing:
            return self.failing[name]
        try:
            return self.copier.copy(copy.task)
        except TidelineError as error:
            return error
