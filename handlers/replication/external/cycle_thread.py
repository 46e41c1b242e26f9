"""Runs the cycles of one policy in its own thread, while replay follows.

Replay's thread calls ``step`` between two batches, which starts a cycle when one is due. A cycle uses its own
metastore clients, copy threads and store: it neither waits for replay nor delays it. Its copies appear only
while this instance holds the target.
"""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from handlers.replication.external.cycle import CycleProgress, ExternalCycle
from state.errors import Inconsistent, Interrupted, TidelineError, Transient


if TYPE_CHECKING:
    from collections.abc import Callable

    from handlers.files.copying.pool import CopyPool
    from handlers.replication.context import Context
    from handlers.replication.external.cycle import ExternalSettings
    from handlers.replication.external.records import CopyRecords


log = structlog.get_logger(__name__)

RETRY_S: Final = 30.0
"""Pause after a cycle that ended early, unless the next one is due sooner."""
JOIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class ExternalTotals:
    """Counts of all ended cycles since the start of the process."""

    cycles: int = 0
    copied: int = 0
    size_bytes: int = 0
    removed: int = 0

    def plus(self, progress: CycleProgress | None) -> ExternalTotals:
        """Return the totals with one more cycle."""
        if progress is None:
            return self
        return ExternalTotals(
            self.cycles + (progress.ended_s is not None),
            self.copied + progress.counts.copied,
            self.size_bytes + progress.counts.size_bytes,
            self.removed + progress.counts.removed,
        )


class ExternalThread:
    """The cycles of one policy. All methods belong to replay's thread, except for the properties."""

    def __init__(
        self,
        context: Context,
        settings: ExternalSettings,
        records: CopyRecords,
        open_pool: Callable[[], CopyPool],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``open_pool`` returns the copy threads of one cycle."""
        self._context = context
        self._settings = settings
        self._records = records
        self._open_pool = open_pool
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._due_s = clock()
        self._totals = ExternalTotals()
        self._running: CycleProgress | None = None
        self._copies: CopyPool | None = None
        self.last: CycleProgress | None = None
        """The last cycle that ended; thread-safe."""
        self.last_complete_s = records.last_complete_s()
        """When the last complete cycle began, as Unix time; thread-safe."""

    @property
    def running(self) -> CycleProgress | None:
        """The cycle that runs; thread-safe."""
        return self._running

    def totals(self) -> ExternalTotals:
        """Return the totals, with the cycle that runs; thread-safe."""
        return self._totals.plus(self._running)

    def step(self) -> float:
        """Start a cycle if one is due, none runs and a place is free; return the seconds until the next one
        is due.
        """
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
        is_due = self._thread is None and self._clock() >= self._due_s
        if is_due and self._context.long_work.cycles.take():
            self._due_s = self._clock() + self._settings.every_s
            self._stopping = threading.Event()
            self._thread = threading.Thread(target=self._main, name="tideline-external", daemon=True)
            self._thread.start()
        return max(0.0, self._due_s - self._clock())

    def _main(self) -> None:
        try:
            self._run_cycle()
        finally:
            self._context.long_work.cycles.leave()

    def _run_cycle(self) -> None:
        progress = CycleProgress(time.time())
        try:
            with (
                closing(self._context.source.clone()) as source,
                closing(self._context.target.clone()) as target,
                closing(self._open_pool()) as copies,
            ):
                cycle = ExternalCycle(
                    self._context,
                    self._settings,
                    self._records,
                    source=source,
                    target=target,
                    copies=copies,
                    stopping=self._stopping,
                )
                self._copies = copies
                self._running = progress = cycle.progress
                cycle.run()
        except TidelineError as error:
            progress.error = error
        except Exception as error:  # noqa: BLE001 - last handler of the thread: the cycle is reported and repeated
            progress.error = Inconsistent(
                "the copy of external tables failed unexpectedly", reason=repr(error)
            )
        self._end(progress)

    def _end(self, progress: CycleProgress) -> None:
        """Publish the result of a cycle."""
        policy, error = self._context.policy.name, progress.error
        self._copies = None
        self._totals, self._running = self._totals.plus(progress), None
        if isinstance(error, Interrupted):
            return
        self.last = progress
        if progress.is_complete:
            self.last_complete_s = int(progress.began_s)
        if error is not None:
            self._due_s = min(self._due_s, self._clock() + RETRY_S)
            log.warning(
                "the copy of external tables failed and will be repeated", policy=policy, reason=str(error)
            )
        for problem in progress.problems[:10]:
            log.warning(
                "files of external tables could not be copied",
                policy=policy,
                tables=problem.tables[:10],
                directory=problem.directory,
                code=problem.code,
                reason=problem.reason,
            )

    def stop(self) -> None:
        """Stop the cycle that runs, and wait for it;
        raise Transient if it does not end in time. The next one continues it.
        """
        thread = self._thread
        if thread is None:
            return
        self._stopping.set()
        copies = self._copies
        if copies is not None:
            copies.close(timeout_s=JOIN_S)
        thread.join(JOIN_S)
        if thread.is_alive():
            raise Transient("the copy of external tables does not stop", waited_s=JOIN_S)
        self._thread = None
        self._due_s = self._clock()

    def close(self) -> None:
        """Stop, and close the records."""
        self.stop()
        self._records.close()
