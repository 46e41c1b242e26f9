"""Copies many files at once: workers around one ``Copier``,
with a bounded queue and a bound on bytes in flight.

While a caller waits, the pool calls ``beat`` whenever bytes have moved, a copy has ended, or a copy waits for
its rate. So a copy of hours sends heartbeats, and one that transfers nothing does not.

A worker is a job of threads that many pools share (``handlers.shared_threads``). It starts with a new copy if
the pool has fewer than ``workers``, and ends when the queue is empty. So a pool without copies costs no
thread, and a daemon can have hundreds of them.

A worker takes small files one after another and makes their names durable together
(``handles.UnsettledCopies``); a copy has ended only after that. Then it leaves its thread to the other pools,
and continues at its next turn.

The bound is on bytes, not on files: eight copies of 2 kB and eight of 2 GB load disks and networks very
differently. Threads suffice, because hashing and system calls run without the interpreter's lock.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from handlers.files.copying.byte_limits import ByteBudget
from handlers.files.copying.byte_rates import Urgency
from handlers.files.copying.copies import Copied, Copier, CopyTask
from handlers.files.copying.handles import UNSETTLED_MAX, CopyHandle, UnsettledCopies
from handlers.files.copying.throttle import Throttle
from handlers.files.paths import AllowedRoots
from handlers.shared_threads import SharedThreads, ThreadUser
from state.errors import FilesUnavailable, TidelineError


WORKERS_DEFAULT: Final = 8
BYTES_IN_FLIGHT_DEFAULT: Final = 4 * 1024**3
QUEUE_DEFAULT: Final = 10_000
_SMALL_BYTES: Final = 1024 * 1024
"""A larger file does not start while the names of others wait for durability."""
_PYTHON_S_MAX: Final = 0.001
"""Processor time of one copy that other threads may have had to wait for. The rest moves and hashes bytes,
without Python's lock."""
_POLL_S: Final = 0.2
"""How often a caller that waits looks for progress."""


@dataclass(frozen=True, slots=True)
class CopyCounters:
    """Totals of a pool since its start."""

    files: int = 0
    """Successful copies, including skipped ones."""
    size_bytes: int = 0
    """Copied bytes, without skipped files."""
    from_change_manager: int = 0
    skipped: int = 0
    mismatches: int = 0
    failed: int = 0
    seconds: float = 0.0
    """Sum over all copies, so more than the elapsed time."""
    limited_s: float = 0.0
    """Time for which copies waited because of a limit, all of them together."""

    def plus(self, other: CopyCounters) -> CopyCounters:
        """Return the totals of both pools."""
        return CopyCounters(*(getattr(self, name) + getattr(other, name) for name in CopyCounters.__slots__))


class CopyPool:
    """Workers that share one ``Copier``."""

    def __init__(  # noqa: PLR0913 - limits have defaults
        self,
        copier: Copier,
        *,
        workers: int = WORKERS_DEFAULT,
        threads: SharedThreads | None = None,
        load_threads: SharedThreads | None = None,
        bytes_in_flight_max: int = BYTES_IN_FLIGHT_DEFAULT,
        queue_max: int = QUEUE_DEFAULT,
        beat: Callable[[], None] = lambda: None,
        throttle: Throttle | None = None,
    ) -> None:
        """Copy with at most ``workers`` of ``threads``; without ``threads``, the pool creates its own.
        Callers that wait for copies call ``beat`` in their threads while the copies make progress. If
        ``load_threads`` are given, they make the copies within ``as_load``.

        ``throttle`` limits the bytes that all workers together read for copies; none by default. The pool
        closes it.
        """
        assert workers >= 1, workers
        assert queue_max >= 1, queue_max
        self._copier = copier
        self._budget = ByteBudget(bytes_in_flight_max)
        self._workers = workers
        self._own_threads = None
        if threads is None:
            threads = self._own_threads = SharedThreads(workers, reserved=0, name="tideline-copy")
        self._replay_threads = threads.user(workers)
        self._load_threads = self._replay_threads if load_threads is None else load_threads.user(workers)
        self._queue_max = queue_max
        self._queue: deque[CopyHandle] = deque()
        self._running: set[CopyHandle] = set()
        self._beat = beat
        self._throttle = throttle or Throttle(())
        self._steps = 0
        """Grows with every chunk that moved and every copy that ended."""
        self._steps_seen = 0
        self._counters = CopyCounters()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        """Notified when the queue gets shorter."""
        self._closed = False
        self._working = 0
        """How many workers run, or wait for their turn."""

    @property
    def allowed(self) -> AllowedRoots:
        """The directories that source files may be read from."""
        return self._copier.allowed

    def submit(self, task: CopyTask) -> CopyHandle:
        """Queue ``task``; waits while the queue is full. Raises FilesUnavailable after the
        end of the pool.
        """
        handle = CopyHandle(task)
        while not self._put(handle):
            self._report_progress()
        return handle

    def _put(self, handle: CopyHandle) -> bool:
        """Queue a copy, and start a worker if there may be one more; return False if the queue stays full for
        ``_POLL_S``.
        """
        with self._lock:
            if not self._room.wait_for(lambda: self._closed or len(self._queue) < self._queue_max, _POLL_S):
                return False
            if self._closed:
                raise FilesUnavailable("the copy pool is closed", target=handle.task.target_uri)
            self._queue.append(handle)
            if self._working < self._workers:
                self._working += 1
                self._threads.submit(self._work)
            return True

    def wait(self, handles: Iterable[CopyHandle], timeout_s: float | None = None) -> list[Copied]:
        """Wait for all ``handles`` and return their results in the same order.

        Raises the first error in that order, but only after every copy has ended, so that no write follows
        the call. After ``timeout_s`` a copy that has not ended counts as FilesUnavailable.
        """
        listed = list(handles)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        outcomes = [self._wait_for_outcome(handle, deadline) for handle in listed]
        for outcome in outcomes:
            if isinstance(outcome, TidelineError):
                raise outcome
        return [outcome for outcome in outcomes if isinstance(outcome, Copied)]

    def _wait_for_outcome(self, handle: CopyHandle, deadline: float | None) -> Copied | TidelineError:
        """Wait for one copy, and meanwhile report the progress of all copies."""
        while not handle.done:
            left_s = _POLL_S if deadline is None else min(_POLL_S, deadline - time.monotonic())
            if left_s <= 0:
                break
            handle.wait(left_s)
            self._report_progress()
        self._report_progress()
        try:
            return handle.result(0)
        except TidelineError as error:
            return error

    def _report_progress(self) -> None:
        with self._lock:
            moved, self._steps_seen = self._steps != self._steps_seen, self._steps
        if moved or self._throttle.has_waiting:
            self._beat()

    def _note_step(self, size_bytes: int) -> None:
        with self._lock:
            self._steps += 1
        self._throttle.use(size_bytes)

    @property
    def _threads(self) -> ThreadUser:
        """The threads that make copies now."""
        return self._load_threads if self._throttle.urgency > Urgency.REPLAY else self._replay_threads

    @contextmanager
    def as_load(self) -> Iterator[None]:
        """Let the copies that a block submits give way to the copies that replay needs."""
        before, self._throttle.urgency = self._throttle.urgency, Urgency.LOAD
        try:
            yield
        finally:
            self._throttle.urgency = before

    def cancel(self, handles: Iterable[CopyHandle]) -> None:
        """Cancel the copies: queued ones never start,
        running ones end at their next chunk with FilesUnavailable.
        """
        for handle in handles:
            handle.cancel()

    def counters(self) -> CopyCounters:
        """Return the totals so far."""
        with self._lock:
            return replace(self._counters, limited_s=self._throttle.waited_s)

    def pending(self) -> tuple[int, int]:
        """Return the approximate numbers of queued and running copies."""
        with self._lock:
            return len(self._queue), len(self._running)

    def close(self, timeout_s: float = 10.0) -> bool:
        """Cancel everything, stop the workers and return whether all ended within ``timeout_s``. A second
        call is harmless.
        """
        with self._lock:
            self._closed = True
            queued, running = list(self._queue), list(self._running)
            self._queue.clear()
            self._room.notify_all()
        for handle in queued:  # no caller waits for them
            handle.finish(None, FilesUnavailable("the copy pool is closed", target=handle.task.target_uri))
        self.cancel(running)
        self._throttle.close()
        self._budget.close()
        users = {self._replay_threads, self._load_threads}
        for threads in users:
            threads.cancel_waiting()
        if self._own_threads is not None:
            self._own_threads.close()
        deadline_s = time.monotonic() + timeout_s
        ended = [threads.wait(max(0.0, deadline_s - time.monotonic())) for threads in users]
        return all(ended)

    def check(self) -> None:
        """Assert the pool's invariants."""
        with self._lock:
            assert self._working <= self._workers
            assert len(self._queue) <= self._queue_max
            assert len(self._running) <= self._working * (UNSETTLED_MAX + 1)
            assert self._counters.skipped <= self._counters.files
        self._budget.check()

    def _work(self) -> None:
        """Copy until the queue is empty or some copies are durable, and then take the next turn."""
        files_max = 1 if self._throttle.is_limited else UNSETTLED_MAX
        unsettled = UnsettledCopies(self._copier, self._finish, files_max=files_max)
        while (handle := self._next()) is not None:
            began_s = time.thread_time()
            self._run(handle, unsettled)
            self._throttle.use_processor(min(time.thread_time() - began_s, _PYTHON_S_MAX))
            if unsettled.is_due:
                break
        unsettled.settle()
        with self._lock:
            if self._queue:
                self._threads.submit(self._work)
            else:
                self._working -= 1

    def _next(self) -> CopyHandle | None:
        with self._lock:
            return self._pop() if self._queue else None

    def _pop(self) -> CopyHandle:
        """Take the next copy, which counts as running from now on; the caller holds the lock."""
        handle = self._queue.popleft()
        self._running.add(handle)
        self._room.notify()
        return handle

    def _run(self, handle: CopyHandle, unsettled: UnsettledCopies) -> None:
        def reserve(size_bytes: int) -> AbstractContextManager[None]:
            if size_bytes > _SMALL_BYTES or self._budget.would_wait(size_bytes):
                unsettled.settle()  # finished copies do not wait for one that takes long
            return self._budget.reserve_bytes(size_bytes)

        try:
            handle.require_not_cancelled()
            copied = self._copier.publish(
                handle.task,
                cancelled=handle,
                reserve=reserve,
                moved=self._note_step,
                step_bytes=self._throttle.step_bytes,
            )
        except BaseException as failure:  # noqa: BLE001 - passed to the waiting caller; it must not end the worker
            self._finish(handle, None, failure)
        else:
            unsettled.add(handle, copied)

    def _finish(self, handle: CopyHandle, copied: Copied | None, error: BaseException | None) -> None:
        with self._lock:
            self._running.discard(handle)
            self._counters = _add_to_counters(self._counters, copied)
            self._steps += 1
        handle.finish(copied, error)


def _add_to_counters(counters: CopyCounters, copied: Copied | None) -> CopyCounters:
    if copied is None:
        return replace(counters, failed=counters.failed + 1)
    return CopyCounters(
        files=counters.files + 1,
        size_bytes=counters.size_bytes + (0 if copied.skipped else copied.size_bytes),
        from_change_manager=counters.from_change_manager + copied.from_change_manager,
        skipped=counters.skipped + copied.skipped,
        mismatches=counters.mismatches + copied.mismatches,
        failed=counters.failed,
        seconds=counters.seconds + copied.seconds,
    )
