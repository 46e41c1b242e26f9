"""The driver of one flat table: reads its stream for as long as the process runs.

Between two batches it maintains the table (``streaming.upkeep.maintenance``), at the beginning of the next
batch or while the source is silent. Batches run in a thread of Spark, idle maintenance in the main thread;
one lock serializes them, because a table has one writer.

The driver reports a progress event after every batch; the process that started the driver turns events into
metrics. An error ends the run and reaches the caller unchanged, not in the form in which Spark reports it.
The supervisor decides whether to start the driver again.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from handlers.failpoints import failpoint
from state.errors import TidelineError, Transient
from streaming.driver.progress import SOURCE_EXHAUSTED, STOP_REQUESTED, batch_event, idle_event, upkeep_event
from streaming.jvm_errors import read_causes, run_error
from streaming.source.raw_events import parse_offsets


if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from state.columns.slots import Layout
    from streaming.batch.records import StagedBatch
    from streaming.driver.assembly import Assembly
    from streaming.driver.progress import ProgressListener, StopReason
    from streaming.source.topic_identity import Topic
    from streaming.upkeep.maintenance import UpkeepResult


IDLE_S: Final = 1
"""How often to check for the end of the query and of idle times."""
IDLE_UPKEEP_S: Final = 15.0
"""How often to maintain the table of a silent stream; each time calls the metastore."""
WAIT_S: Final = 0.2
"""How often a batch that waits for the lock checks whether the run is stopping."""
IDLE_REPORT_S: Final = 10.0
"""How often a silent stream reports that it is idle, so that the supervisor does not consider it stuck."""


class _Stopped(Exception):  # noqa: N818 - only Spark sees it and ends the query
    """Raised to end the run before this batch begins; the batch is the first one of the next run."""


class Driver:
    """One run of a table's stream."""

    def __init__(self, assembly: Assembly, progress: ProgressListener) -> None:
        self._parts = assembly
        self._progress = progress
        self._lock = threading.Lock()
        self._error: TidelineError | None = None
        self._stopping = threading.Event()
        self._reported_s = self._maintained_s = time.monotonic()

    def stop(self) -> None:
        """Request that the run ends after the current batch. A signal handler may call this."""
        self._stopping.set()

    def run(self, *, once: bool) -> StopReason:
        """Read the stream until ``stop``, or with ``once`` until the source is exhausted. Return which of the
        two ended it.

        Raises TopicReplaced, StateLocked, Conflict, Inconsistent and other errors that need an operator, and
        Transient for temporary failures.
        """
        parts = self._parts
        with self._lock:
            parts.stream.lease.hold()
            parts.check_topic()
            self._maintain()
        query = self._start(once=once)
        try:
            while not self._has_ended(query):
                if self._stopping.is_set():
                    break
                self._maintain_when_idle(query)
        finally:
            reason: StopReason = STOP_REQUESTED if self._stopping.is_set() else SOURCE_EXHAUSTED
            self._stopping.set()
            # Wait for the current batch. A batch that waits for the lock is abandoned, because Spark would
            # otherwise wait for it.
            with self._lock:
                query.stop()
        if self._error is not None:
            raise self._error
        with self._lock:
            self._maintain()
        return reason

    def _start(self, *, once: bool) -> StreamingQuery:
        settings = self._parts.settings
        writer = self._parts.source().writeStream.foreachBatch(self._run_batch)
        writer = writer.option("checkpointLocation", settings.checkpoint).queryName(settings.name)
        seconds = f"{settings.trigger_s:g} seconds"
        return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=seconds)).start()

    def _run_batch(self, raw: DataFrame, batch: int) -> None:
        """Run a batch; Spark calls this in its own thread."""
        parts, started = self._parts, time.monotonic()
        try:
            with self._hold_lock():
                upkeep = self._maintain()
                topic = parts.check_topic()
                maintained = time.monotonic()
                done = parts.runner.run(raw, batch, parts.origin(batch))
                event = batch_event(
                    done,
                    _read_layout(parts, batch),
                    _count_lag(done, topic),
                    upkeep,
                    upkeep_s=maintained - started,
                    batch_s=time.monotonic() - maintained,
                    key_log_failure=parts.stream.key_demand.failure,
                )
                self._progress(event)
        except TidelineError as error:
            self._error = error
            raise
        except Exception as error:
            # Keep the exception here: later, Spark reports only this thread's stack trace, as a message.
            if (cause := run_error(read_causes(error))) is None:
                raise
            self._error = cause
            raise cause from error
        failpoint("flat.batch")

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Hold the lock during the block. Raises _Stopped if the run is stopping."""
        while not self._lock.acquire(timeout=WAIT_S):
            if self._stopping.is_set():
                raise _Stopped
        try:
            if self._stopping.is_set():
                raise _Stopped
            yield
        finally:
            self._lock.release()

    def _maintain(self) -> UpkeepResult:
        self._maintained_s = time.monotonic()
        upkeep = self._parts.maintenance.run()
        failpoint("flat.kept")
        return upkeep

    def _has_ended(self, query: StreamingQuery) -> bool:
        from pyspark.errors import PySparkException

        try:
            return bool(query.awaitTermination(IDLE_S))
        except PySparkException as error:
            if self._error is None:
                cause = run_error(read_causes(error))
                raise cause or Transient("Spark ended the stream", reason=str(error)[:2000]) from error
            return True

    def _maintain_when_idle(self, query: StreamingQuery) -> None:
        """Maintain the table while no batch is running."""
        if query.status["isTriggerActive"]:
            return
        if time.monotonic() - self._maintained_s < IDLE_UPKEEP_S:
            self._report_idle()
        elif self._lock.acquire(blocking=False):
            try:
                upkeep = self._maintain()
            finally:
                self._lock.release()
            if upkeep.sealed or upkeep.dropped or upkeep.deleted:
                self._progress(upkeep_event(upkeep))

    def _report_idle(self) -> None:
        if time.monotonic() - self._reported_s >= IDLE_REPORT_S:
            self._reported_s = time.monotonic()
            self._progress(idle_event(self._read_lag()))

    def _read_lag(self) -> dict[int, int]:
        """Return the lag of a silent stream; empty if the broker does not answer. The next batch then reports
        the error.
        """
        last = self._parts.stream.records.last()
        with suppress(TidelineError):
            return {} if last is None else _count_lag(last, self._parts.check_topic())
        return {}


def _count_lag(batch: StagedBatch, topic: Topic | None) -> dict[int, int]:
    """Return the number of unread records of each partition after the batch."""
    if topic is None:
        return {}
    offsets = parse_offsets(batch.origin, topic.name)
    return {part: end - offsets.get(part, 0) for part, end in topic.ends.items()}


def _read_layout(parts: Assembly, batch: int) -> Layout:
    """Return the column layout of the batch."""
    plan = parts.stream.records.plan(batch)
    assert plan is not None, batch
    return plan.layout
