"""The driver of one flat table: the process that reads the stream, for as long as it runs.

Between two batches it keeps the table (``streaming.upkeep.maintenance``): at the beginning of the next batch, or while the source is
silent. Both are Spark's and this process' threads in turn, under one lock, because a table has one writer.

Progress goes out as values, one after every batch; whoever started the driver makes metrics of them. An error ends the run and is
raised as what it is, not as Spark's account of it: the supervisor decides whether to start again.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from handlers.failpoints import failpoint
from state.errors import TidelineError, Transient
from streaming.driver.progress import batch_event, idle_event, upkeep_event
from streaming.source.raw_events import parse_offsets


if TYPE_CHECKING:
    from collections.abc import Iterator

    from state.columns.slots import Layout
    from streaming.batch.records import StagedBatch
    from streaming.driver.assembly import Assembly
    from streaming.driver.progress import ProgressListener, StopReason
    from streaming.source.topic_identity import Topic
    from streaming.upkeep.maintenance import UpkeepResult


IDLE_S: Final = 1.0
"""How often a silent stream is looked after."""
IDLE_KEEP_S: Final = 15.0
"""How often the table of a silent stream is kept: the metastore is asked each time."""
WAIT_S: Final = 0.2
"""How often a batch that waits for the lock looks whether the run is to end."""
IDLE_TELL_S: Final = 10.0
"""How often it is told that the stream is silent: whoever supervises knows then that it is not stuck."""


class _Stopped(Exception):  # noqa: N818 - nobody sees it but Spark, which ends the query by it
    """The run ends before this batch has begun; it is the first of the next run."""


class Driver:
    """One run of a table's stream."""

    def __init__(self, assembly: Assembly, progress: ProgressListener) -> None:
        self._parts = assembly
        self._progress = progress
        self._lock = threading.Lock()
        self._error: TidelineError | None = None
        self._stopping = threading.Event()
        self._told_s = self._kept_s = time.monotonic()

    def stop(self) -> None:
        """Ask the run to end after the batch at hand; may be called from a signal handler."""
        self._stopping.set()

    def run(self, *, once: bool) -> StopReason:
        """Read the stream until ``stop``; with ``once`` only what is there now. Return which of the two ended it.

        Raises TopicReplaced, StateLocked, Conflict, Inconsistent and others that need people, Transient what may pass.
        """
        parts = self._parts
        with self._lock:
            parts.stream.lease.hold()
            parts.check_topic()
            self._keep()
        query = self._start(once=once)
        try:
            while not self._ended(query):
                if self._stopping.is_set():
                    break
                self._look_after(query)
        finally:
            reason: StopReason = "asked to" if self._stopping.is_set() else "nothing is left to read"
            self._stopping.set()
            # After the batch at hand; one that waits for the lock gives up, or Spark would wait for it.
            with self._lock:
                query.stop()
        if self._error is not None:
            raise self._error
        with self._lock:
            self._keep()
        return reason

    def _start(self, *, once: bool) -> Any:
        settings = self._parts.settings
        writer = self._parts.source().writeStream.foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", settings.checkpoint).queryName(settings.name)
        seconds = f"{settings.trigger_s:g} seconds"
        return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=seconds)).start()

    def _batch(self, raw: Any, batch: int) -> None:
        """Spark calls this for each batch, in a thread of its own."""
        parts, started = self._parts, time.monotonic()
        try:
            with self._turn():
                upkeep = self._keep()
                topic = parts.check_topic()
                kept = time.monotonic()
                done = parts.runner.run(raw, batch, parts.origin(batch))
                event = batch_event(
                    done,
                    _layout(parts, batch),
                    _lag(done, topic),
                    upkeep,
                    upkeep_s=kept - started,
                    batch_s=time.monotonic() - kept,
                )
                self._progress(event)
        except TidelineError as error:
            self._error = error
            raise
        failpoint("flat.batch")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the lock, or raise _Stopped when the run is to end."""
        while not self._lock.acquire(timeout=WAIT_S):
            if self._stopping.is_set():
                raise _Stopped
        try:
            if self._stopping.is_set():
                raise _Stopped
            yield
        finally:
            self._lock.release()

    def _keep(self) -> UpkeepResult:
        self._kept_s = time.monotonic()
        upkeep = self._parts.maintenance.run()
        failpoint("flat.kept")
        return upkeep

    def _ended(self, query: Any) -> bool:
        from pyspark.errors import PySparkException

        try:
            return bool(query.awaitTermination(IDLE_S))
        except PySparkException as error:
            if self._error is None:
                raise Transient("Spark ended the stream", reason=str(error)[:2000]) from error
            return True

    def _look_after(self, query: Any) -> None:
        """Keep the table while no batch is at hand."""
        if query.status["isTriggerActive"]:
            return
        if time.monotonic() - self._kept_s < IDLE_KEEP_S:
            self._tell_idle()
        elif self._lock.acquire(blocking=False):
            try:
                upkeep = self._keep()
            finally:
                self._lock.release()
            if upkeep.sealed or upkeep.dropped or upkeep.deleted:
                self._progress(upkeep_event(upkeep))

    def _tell_idle(self) -> None:
        if time.monotonic() - self._told_s >= IDLE_TELL_S:
            self._told_s = time.monotonic()
            self._progress(idle_event())


def _lag(done: StagedBatch, topic: Topic | None) -> dict[int, int]:
    """How many records of each partition are behind the batch."""
    if topic is None:
        return {}
    offsets = parse_offsets(done.origin, topic.name)
    return {part: end - offsets.get(part, 0) for part, end in topic.ends.items()}


def _layout(parts: Assembly, batch: int) -> Layout:
    """The columns that the batch was written with."""
    plan = parts.stream.records.plan(batch)
    assert plan is not None, batch
    return plan.layout
