"""The section ``copies`` of the daemon's status: the copied files, one row for each policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from daemon.replica.copy_jobs.progress import job_line
from daemon.status.metrics import families
from daemon.status.model import StatusSection
from daemon.terminal.layout import bytes_text, number_text, table_text
from handlers.files.copying.jobs import JobStatus


if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric

    from daemon.replica.loading.load_resources import LoadCopies
    from handlers.files.copying.pool import CopyPool
    from handlers.replication.context import Context


_COUNTERS: Final = (
    ("tideline_copied_files", "Files copied successfully, including skipped ones.", "files"),
    ("tideline_copied_bytes", "Bytes copied.", "size_bytes"),
    ("tideline_copies_skipped", "Files already on the target.", "skipped"),
    ("tideline_copy_fallbacks", "Files copied from the change manager.", "fallbacks"),
    ("tideline_copies_failed", "Copies that failed.", "failed"),
    (
        "tideline_checksum_mismatches",
        "Copy attempts with a checksum that differs from the recorded one.",
        "mismatches",
    ),
    (
        "tideline_copies_limited_seconds",
        "Time that all copies together waited because of a limit (bytes_per_s_max).",
        "limited_s",
    ),
)
_GAUGES: Final = (("tideline_copies_waiting", "Files being copied or waiting for a copy.", "waiting"),)


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """The counts of one policy's copies since the daemon's start."""

    policy: str
    files: int = 0
    """Files copied successfully, including skipped ones."""
    size_bytes: int = 0
    skipped: int = 0
    """Files already on the target."""
    waiting: int = 0
    """Queued and running copies."""
    fallbacks: int = 0
    """Files copied from the change manager."""
    mismatches: int = 0
    """Attempts whose checksum differed from the recorded one."""
    failed: int = 0
    limited_s: float = 0.0
    """Total time for which copies waited because of a limit."""
    job: JobStatus | None = None
    """The copy job that runs."""


def describe_copies(policy: str, context: Context, copies: CopyPool, loads: LoadCopies) -> CopyStatus:
    """Return the counts of all copies of a policy: for events, loads and copy jobs. Thread-safe."""
    done = copies.counters().plus(loads.total())
    if context.jobs is not None:
        done = done.plus(context.jobs.counters)
    return CopyStatus(
        policy,
        files=done.files,
        size_bytes=done.size_bytes,
        skipped=done.skipped,
        waiting=sum(copies.pending()) + loads.pending(),
        fallbacks=done.from_change_manager,
        mismatches=done.mismatches,
        failed=done.failed,
        limited_s=round(done.limited_s, 3),
        job=None if context.jobs is None else context.jobs.running,
    )


class CopySection(StatusSection[tuple[CopyStatus, ...]]):
    """The section ``copies``."""

    key = "copies"
    empty = ()

    def __init__(self) -> None:
        super().__init__(tuple[CopyStatus, ...])

    def text(self, value: tuple[CopyStatus, ...], now_s: float) -> str:  # noqa: ARG002 - counts need no time
        """Return a row for each policy."""
        header = ("COPIES", "FILES", "BYTES", "WAITING", "FALLBACKS", "MISMATCHES")
        jobs = [f"{each.policy}: {job_line(each.job)}" for each in value if each.job is not None]
        return "\n".join([table_text(header, map(_copy_row, value)), *jobs])

    def families(self, value: tuple[CopyStatus, ...]) -> Iterable[Metric]:
        """Yield counters and gauges labeled by policy."""
        labels = {"policy": [row.policy for row in value]}
        yield from families(CounterMetricFamily, _COUNTERS, labels, value)
        yield from families(GaugeMetricFamily, _GAUGES, labels, value)

    def copied_bytes(self, value: tuple[CopyStatus, ...]) -> int:
        """Return the bytes that all policies have copied."""
        return sum(row.size_bytes for row in value)


COPIES: Final = CopySection()


def _copy_row(copies: CopyStatus) -> tuple[str, ...]:
    return (
        copies.policy,
        number_text(copies.files),
        bytes_text(copies.size_bytes),
        number_text(copies.waiting),
        number_text(copies.fallbacks),
        number_text(copies.mismatches),
    )
