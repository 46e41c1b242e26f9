"""Copies submitted to a pool, and those of one worker whose names are not durable yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from handlers.files.copying.copies import Copied, Copier, CopyTask
from handlers.files.paths import parse_location
from state.errors import FilesUnavailable


UNSETTLED_MAX: Final = 64
UNSETTLED_S: Final = 0.2
"""How many copies one worker publishes, and how long it takes for that, before it makes their names durable
together."""


class CopyHandle:
    """One submitted copy.

    A transaction has as many handles as files until its commit, so a handle is small: it owns one lock and no
    event.
    """

    __slots__ = ("_cancelled", "_done", "_error", "_pending", "_result", "task")

    def __init__(self, task: CopyTask) -> None:
        self.task = task
        self._cancelled = False
        self._done = False
        self._pending = threading.Lock()
        """Held until the copy finishes."""
        self._pending.acquire()
        self._result: Copied | None = None
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether the copy ended, successfully or not."""
        return self._done

    def cancel(self) -> None:
        """End the copy as soon as possible: it never starts, or ends at its next chunk."""
        self._cancelled = True

    def is_set(self) -> bool:
        """Return whether the copy is cancelled: for a running copy, its handle serves as the event of
        cancellation.
        """
        return self._cancelled

    def require_not_cancelled(self) -> None:
        """Raise FilesUnavailable if the copy is cancelled."""
        if self._cancelled:
            raise FilesUnavailable("the copy was cancelled", target=self.task.target_uri)

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until the copy finishes, at most ``timeout_s``; return whether it has."""
        if not self._done and self._pending.acquire(timeout=-1 if timeout_s is None else max(0.0, timeout_s)):
            self._pending.release()
        return self._done

    def result(self, timeout_s: float | None = None) -> Copied:
        """Wait and return the result, or raise the error of the copy;
        raise FilesUnavailable after ``timeout_s``.
        """
        if not self.wait(timeout_s):
            raise FilesUnavailable(
                "the copy did not end in time", target=self.task.target_uri, timeout_s=timeout_s
            )
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def finish(self, result: Copied | None, error: BaseException | None) -> None:
        """Record the outcome; called once, by the pool."""
        assert (result is None) != (error is None)
        self._result, self._error = result, error
        self._done = True
        self._pending.release()


class UnsettledCopies:
    """The copies that one worker has published; they end once their directories are durable. Only that worker
    uses it.

    One wait for the disk then serves many small files of a directory. A caller never sees a copy end that is
    not durable.
    """

    def __init__(
        self,
        copier: Copier,
        finish: Callable[[CopyHandle, Copied | None, BaseException | None], None],
        *,
        files_max: int = UNSETTLED_MAX,
    ) -> None:
        """``finish`` receives each copy with its result or its error."""
        self._copier = copier
        self._finish = finish
        self._files_max = files_max
        self._copies: list[tuple[CopyHandle, Copied]] = []
        self._since_s = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the next copy must wait until these copies have ended."""
        return len(self._copies) >= self._files_max or time.monotonic() - self._since_s >= UNSETTLED_S

    def add(self, handle: CopyHandle, copied: Copied) -> None:
        """Add a published copy."""
        if not self._copies:
            self._since_s = time.monotonic()
        self._copies.append((handle, copied))

    def settle(self) -> None:
        """Make all copies durable and end them; if that fails for a directory, its copies end with the
        error.
        """
        copies, self._copies = self._copies, []
        failures: dict[str, BaseException | None] = {}
        for handle, copied in copies:
            directory = handle.task.target_uri.rpartition("/")[0]
            if directory not in failures:
                failures[directory] = self._settle_directory(handle.task)
            failure = failures[directory]
            self._finish(handle, copied if failure is None else None, failure)

    def _settle_directory(self, task: CopyTask) -> BaseException | None:
        try:
            self._copier.settle(parse_location(task.target_uri).parent)
        except BaseException as failure:  # noqa: BLE001 - passed to the waiting caller; it must not end the worker
            return failure
        return None
