"""The section ``loads`` of the daemon's status: tables that wait for a load or are being loaded."""

from __future__ import annotations

import shlex
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily

from daemon.status.action_calls import call_policy
from daemon.status.actions import FAILING_TRIES, describe_failing_load
from daemon.status.model import StatusSection
from daemon.terminal.layout import bytes_text, duration_text, number_text, table_text


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prometheus_client.metrics_core import Metric

    from daemon.status.model import OperatorAction
    from handlers.replication.context import Context


LISTED_MAX: Final = 100
"""Tables of one policy that are listed."""


@dataclass(frozen=True, slots=True)
class LoadStatus:
    """A table that is not on the target yet, or not up to date there."""

    policy: str
    table: str
    """``db.table`` at the source."""
    state: str
    """``waiting``, ``loading`` or ``catching-up``."""
    reason: str
    """Why it is loaded: ``bootstrap``, ``release``, ``repair``, ``in-scope``, ``gap`` or ``files-gone``."""
    requested_s: int
    """Unix time."""
    tries: int = 0
    """How often the load failed."""
    problem: str | None = None
    """Why it failed the last time, or the transactions for which it waits."""
    files: int = 0
    """Files on the target, of ``files_listed``."""
    size_bytes: int = 0
    files_listed: int = 0
    size_bytes_listed: int = 0
    next_try_s: float | None = None
    """Unix time of the next try of a load that failed."""
    cause: str | None = None
    """Of ``files-gone``: which files of the source may be gone, and why."""
    began_s: float | None = None
    """Unix time at which its copies began; None if they have not."""

    def left_s(self, now_s: float) -> float | None:
        """Return how long copying the remaining listed files takes at the rate so far; None if unknown."""
        if self.began_s is None or not self.size_bytes:
            return None
        return (now_s - self.began_s) * (self.size_bytes_listed - self.size_bytes) / self.size_bytes


@dataclass(slots=True)
class _Counts:
    files: int = 0
    size_bytes: int = 0
    files_listed: int = 0
    size_bytes_listed: int = 0
    txn_ids: tuple[int, ...] = ()
    began_s: float = field(default_factory=time.time)


class LoadCounts:
    """Counts the progress of the running load (``loading.table.tools.LoadProgress``)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table = ""
        self._counts = _Counts()

    def waiting(self, table: str, txn_ids: Sequence[int]) -> None:
        """Note the transactions that the load waits for."""
        with self._lock:
            self._of(table).txn_ids = tuple(txn_ids[:10])

    def listed(self, table: str, files: int, size_bytes: int) -> None:
        """Count listed files."""
        with self._lock:
            counts = self._of(table)
            counts.files_listed += files
            counts.size_bytes_listed += size_bytes

    def copied(self, table: str, files: int, size_bytes: int) -> None:
        """Count files that are now on the target."""
        with self._lock:
            counts = self._of(table)
            counts.files += files
            counts.size_bytes += size_bytes

    def restarted(self, table: str, reason: str) -> None:  # noqa: ARG002 - part of the port
        """Start counting again."""
        with self._lock:
            self._table, self._counts = table, _Counts()

    def of(self, table: str) -> _Counts:
        """Return the counts of a table; zeros if another table is being loaded."""
        with self._lock:
            return self._counts if table == self._table else _Counts()

    def _of(self, table: str) -> _Counts:
        if table != self._table:
            self._table, self._counts = table, _Counts()
        return self._counts


def list_loads(
    policy: str,
    context: Context,
    progress: LoadCounts,
    running: str | None,
    next_try_s: Callable[[str], float | None] = lambda _: None,
) -> tuple[LoadStatus, ...]:
    """Return at most ``LISTED_MAX`` tables of a policy that wait for a load or are being loaded."""
    rows = []
    for entry in context.tables.loads.waiting()[:LISTED_MAX]:
        state = "catching-up" if entry.is_catching_up else "waiting"
        counts = _Counts()
        if entry.table == running and not entry.is_catching_up:
            state, counts = "loading", progress.of(entry.table)
        open_txns = ", ".join(map(str, counts.txn_ids))
        rows.append(
            LoadStatus(
                policy,
                f"{context.policy.source_db}.{entry.table}",
                state,
                entry.reason,
                entry.requested_s,
                entry.tries,
                f"waits for open transactions {open_txns}" if open_txns else entry.problem,
                counts.files,
                counts.size_bytes,
                counts.files_listed,
                counts.size_bytes_listed,
                next_try_s(entry.table),
                entry.cause,
                counts.began_s if counts.files_listed else None,
            )
        )
    return tuple(rows)


class LoadSection(StatusSection[tuple[LoadStatus, ...]]):
    """The section ``loads``."""

    key = "loads"
    empty = ()

    def __init__(self) -> None:
        super().__init__(tuple[LoadStatus, ...])

    def text(self, value: tuple[LoadStatus, ...], now_s: float) -> str:
        """Return a row for each table, with the reason for its load; an empty text without tables."""
        header = ("LOADS", "TABLE", "REASON", "STATE", "FOR", "FILES", "BYTES", "TRIES")
        if not value:
            return ""
        causes = [f"{load.table}: {load.cause}" for load in value if load.cause is not None]
        return "\n".join([table_text(header, (_row(load, now_s) for load in value)), *causes])

    def actions(self, value: tuple[LoadStatus, ...]) -> Iterable[OperatorAction]:
        """Return the loads that keep failing."""
        return [
            describe_failing_load(
                f"replication:{load.policy} {load.table}",
                (load.tries, load.problem),
                load.next_try_s,
                f"tideline release {load.policy} {shlex.quote(load.table.rpartition('.')[2])}",
                load.requested_s,
                call_policy(load.policy, "release", "Load now", table=load.table),
            )
            for load in value
            if load.tries >= FAILING_TRIES and load.problem is not None
        ]

    def families(self, value: tuple[LoadStatus, ...]) -> Iterable[Metric]:
        """Yield the number of tables by policy and state."""
        family = GaugeMetricFamily(
            "tideline_loads", "Tables not yet on the target, by state.", labels=["policy", "state"]
        )
        counts: dict[tuple[str, str], int] = {}
        for load in value:
            counts[load.policy, load.state] = counts.get((load.policy, load.state), 0) + 1
        for key, count in sorted(counts.items()):
            family.add_metric(key, count)
        yield family


LOADS: Final = LoadSection()


def _row(load: LoadStatus, now_s: float) -> tuple[str, ...]:
    return (
        load.policy,
        load.table,
        load.reason,
        load.state,
        duration_text(max(0.0, now_s - load.requested_s)),
        f"{number_text(load.files)} of {number_text(load.files_listed)}" if load.files_listed else "-",
        bytes_text(load.size_bytes) if load.files_listed else "-",
        number_text(load.tries),
    )
