"""Metastore calls of the catalog, in their own thread.

A metastore may take a minute to answer. The catalog's thread applies events, so it must not wait for an
answer: it submits a function, and continues when the result is there. Each source has one such thread, so its
calls run one after another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from queue import SimpleQueue
from traceback import clear_frames
from typing import Any, Final, Protocol, TypeVar

from handlers.metastore.client import Metastore


T = TypeVar("T")
STEP_WAIT_S: Final = 0.02
"""How long one step waits for an answer."""


class BackgroundCalls(Protocol):
    """Runs functions that call a metastore."""

    def submit(self, function: Callable[[Metastore], T]) -> Future[T]:
        """Run a function after those submitted earlier; it must not touch data that the caller's thread
        changes.
        """

    def close(self) -> None:
        """Release the connection, and drop calls that have not begun."""


class CallsAtOnce:
    """Runs every function in the caller's thread, before ``submit`` returns. For commands and tests."""

    def __init__(self, source: Metastore) -> None:
        self._source = source

    def submit(self, function: Callable[[Metastore], T]) -> Future[T]:
        """Run the function now."""
        future: Future[T] = Future()
        _run(future, function, self._source)
        return future

    def close(self) -> None:
        """Do nothing: the connection is the caller's."""


class CallThread:
    """Runs functions in one thread, which starts with the first one and owns the connection."""

    def __init__(self, source: Metastore, name: str) -> None:
        """Only this thread uses ``source``."""
        self._source = source
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[Metastore], Any]] | None] = SimpleQueue()
        # A daemon thread: the end of the process does not wait for the answer of a metastore.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._is_closed = False

    def submit(self, function: Callable[[Metastore], T]) -> Future[T]:
        """Queue the function."""
        assert not self._is_closed, self._thread.name
        future: Future[T] = Future()
        self._queue.put((future, function))
        if self._thread.ident is None:
            self._thread.start()
        return future

    def close(self) -> None:
        """Let the thread end after the current call; it closes the connection."""
        if not self._is_closed:
            self._is_closed = True
            self._queue.put(None)
            if self._thread.ident is None:
                self._source.close()

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            if not self._is_closed:
                _run(*work, self._source)
        self._source.close()


def is_answered(future: Future[Any], wait_s: float) -> bool:
    """Wait for a result for a limited time; return whether there is one."""
    return future.done() or bool(wait([future], min(wait_s, threading.TIMEOUT_MAX)).done)


def await_in_steps(future: Future[T]) -> Generator[None, None, T]:
    """Wait for a result in steps; return it, or raise the error of the call."""
    while not is_answered(future, STEP_WAIT_S):
        yield
    return future.result()


def _run(future: Future[T], function: Callable[[Metastore], T], source: Metastore) -> None:
    try:
        result = function(source)
    except BaseException as error:  # noqa: BLE001 - raised where the result is read
        clear_frames(error.__traceback__)  # the future and its waiter would keep them in memory
        future.set_exception(error)
    else:
        future.set_result(result)
