"""The progress of a copy job: files, bytes, rate and the time left."""

from __future__ import annotations

from collections.abc import Sequence

from daemon.terminal.layout import bytes_text, duration_text, number_text
from handlers.files.copying.copies import Copied
from handlers.files.copying.jobs import JobStatus, Outcome, SizedTask
from state.value_text import count_text
from streaming.copyjob.share import copy_cost


def job_line(status: JobStatus) -> str:
    """Return the progress of a job as one line."""
    parts = [
        f"copy job: {number_text(status.files)} of {count_text(status.files_listed, 'file')}",
        f"{bytes_text(status.size_bytes)} of {bytes_text(status.size_bytes_listed)}",
    ]
    if status.left_s is not None:
        parts += [f"{bytes_text(int(status.bytes_per_s))}/s", f"about {duration_text(status.left_s)} left"]
    if status.failed:
        parts.append(f"{count_text(status.failed, 'file')} failed")
    return ", ".join(parts)


class JobProgress:
    """Counts the outcomes of one job. Use it from one thread only."""

    def __init__(self, copies: Sequence[SizedTask], now_s: float) -> None:
        self._copies = copies
        self._began_s = self._ready_s = now_s
        self._listed_bytes = sum(copy.size_bytes for copy in copies)
        self._listed_cost = sum(copy_cost(copy.size_bytes) for copy in copies)
        self._files = self._bytes = self._cost = self._failed = 0
        self.restarts = 0

    def start(self, now_s: float) -> None:
        """Start measuring the rate, because the driver is ready."""
        self._ready_s = now_s

    def add(self, number: int, outcome: Outcome) -> None:
        """Count the outcome of a copy."""
        size_bytes = self._copies[number].size_bytes
        self._files += 1
        self._cost += copy_cost(size_bytes)
        if isinstance(outcome, Copied):
            self._bytes += size_bytes
        else:
            self._failed += 1

    def status(self, now_s: float) -> JobStatus:
        """Return the progress at this time."""
        elapsed_s = max(now_s - self._ready_s, 1e-3)
        left_s = elapsed_s / self._cost * (self._listed_cost - self._cost) if self._cost else None
        return JobStatus(
            files=self._files,
            files_listed=len(self._copies),
            size_bytes=self._bytes,
            size_bytes_listed=self._listed_bytes,
            began_s=self._began_s,
            bytes_per_s=self._bytes / elapsed_s,
            left_s=left_s,
            failed=self._failed,
            restarts=self.restarts,
        )
