"""Shows the progress of a bootstrap on a terminal, or in the daemon's log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import structlog

from daemon.replica.copy_jobs.progress import job_line
from daemon.terminal.layout import bytes_text, duration_text, number_text
from handlers.files.copying.jobs import JobStatus
from handlers.replication.tables.table_loads import LoadedTable
from state.value_text import count_text


log = structlog.get_logger(__name__)


class CountingProgress:
    """Counts the progress of a bootstrap. Thread-safe."""

    def __init__(
        self, changed: Callable[[str], None] = lambda _: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Call ``changed`` with the current line after each step."""
        self._changed = changed
        self._clock = clock
        self._started_s = clock()
        self._lock = threading.Lock()
        self._waiting: dict[str, int] = {}
        self._job: JobStatus | None = None
        self.tables = 0
        self.loaded = 0
        self.loaded_before = 0
        """Tables that an earlier run loaded."""
        self.files = 0
        self.size_bytes = 0
        self.problems: dict[str, str] = {}

    def started(self, tables: int, loaded: int) -> None:
        """Set the number of tables; an earlier run has loaded ``loaded`` of them."""
        self.tables, self.loaded, self.loaded_before = tables, loaded, loaded
        self._changed(self.line())

    def waiting(self, table: str, txn_ids: Sequence[int]) -> None:
        """Count the transactions that a load waits for."""
        with self._lock:
            self._waiting[table] = len(txn_ids)
        self._changed(self.line())

    def listed(self, table: str, files: int, size_bytes: int) -> None:
        """Do nothing: only copied files count."""

    def copied(self, table: str, files: int, size_bytes: int) -> None:  # noqa: ARG002 - part of the port
        """Count copied files."""
        with self._lock:
            self.files += files
            self.size_bytes += size_bytes
        self._changed(self.line())

    def restarted(self, table: str, reason: str) -> None:
        """Do nothing: the load continues."""

    def finished(self, table: LoadedTable) -> None:
        """Count a loaded table."""
        with self._lock:
            self.loaded += 1
            self.problems.pop(table.table, None)
        self._changed(self.line())

    def failed(self, table: str, problem: str) -> None:
        """Remember why the load of a table failed."""
        with self._lock:
            self.problems[table] = problem
        self._changed(self.line())

    def show_job(self, status: JobStatus) -> None:
        """Show the progress of a copy job until it ends."""
        self._job = None if status.files == status.files_listed else status
        self._changed(self.line())

    def left_s(self) -> float | None:
        """Estimate the time left from the tables loaded so far; None before the first one."""
        done = self.loaded - self.loaded_before
        if done <= 0:
            return None
        return (self._clock() - self._started_s) / done * max(0, self.tables - self.loaded)

    def line(self) -> str:
        """Return the progress as one line."""
        parts = [
            f"{number_text(self.loaded)} of {count_text(self.tables, 'table')}",
            f"{count_text(self.files, 'file')}",
            bytes_text(self.size_bytes),
        ]
        left_s = self.left_s()
        if left_s is not None and self.loaded < self.tables:
            parts.append(f"about {duration_text(left_s)} left")
        if (job := self._job) is not None:
            parts.append(job_line(job))
        waiting = sum(dict(self._waiting).values())
        if waiting:
            parts.append(f"waiting for {count_text(waiting, 'open transaction')}")
        if self.problems:
            parts.append(f"{count_text(len(self.problems), 'table')} failed, last: {list(self.problems)[-1]}")
        return ", ".join(parts)


class LoggedProgress(CountingProgress):
    """Writes the progress of a bootstrap in the daemon to the log."""

    def __init__(self, policy: str) -> None:
        super().__init__()
        self._log = log.bind(policy=policy)

    def started(self, tables: int, loaded: int) -> None:
        """Log the number of tables that remain."""
        super().started(tables, loaded)
        self._log.info("bootstrap continues" if loaded else "bootstrap begins", tables=tables, loaded=loaded)

    def waiting(self, table: str, txn_ids: Sequence[int]) -> None:
        """Log the transactions that a load waits for."""
        super().waiting(table, txn_ids)
        if txn_ids:
            self._log.warning(
                "load waits for open transactions", table=table, transactions=list(txn_ids)[:20]
            )

    def restarted(self, table: str, reason: str) -> None:
        """Log why a load starts again."""
        self._log.info("load starts again, because the table changed", table=table, reason=reason)

    def finished(self, table: LoadedTable) -> None:
        """Log the loaded table with the progress of all."""
        super().finished(table)
        self._log.info("table loaded", table=table.table, event_id=table.event_id, progress=self.line())

    def failed(self, table: str, problem: str) -> None:
        """Log the failure."""
        super().failed(table, problem)
        self._log.warning("load failed", table=table, reason=problem)
