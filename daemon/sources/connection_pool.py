"""Threads that each call the metastore over a connection of their own, started at the first use."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.sources.write_events import Connect, NotificationLog


R = TypeVar("R")


class ConnectionPool:
    """Runs functions in ``size`` threads. Used by one thread."""

    def __init__(self, connect: Connect, size: int, name: str) -> None:
        self._connect = connect
        self.size = size
        self._name = name
        self._idle: SimpleQueue[NotificationLog | None] = SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, function: Callable[[NotificationLog], R]) -> Future[R]:
        """Call ``function`` with a connection in one of the threads."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.size, thread_name_prefix=self._name)
            self._idle = SimpleQueue()
            for _ in range(self.size):
                self._idle.put(None)
        return self._pool.submit(self._call, self._idle, function)

    def _call(self, idle: SimpleQueue[NotificationLog | None], function: Callable[[NotificationLog], R]) -> R:
        log = idle.get()
        try:
            log = log or self._connect()
            return function(log)
        finally:
            idle.put(log)

    def close(self, *, wait: bool = True) -> None:
        """End the threads and close their connections.

        Without ``wait``, a thread that hangs in a file system keeps its connection.
        """
        if self._pool is None:
            return
        self._pool.shutdown(wait=wait, cancel_futures=True)
        self._pool = None
        with ExitStack() as closing_all:
            while not self._idle.empty():
                log = self._idle.get()
                if log is not None:
                    closing_all.enter_context(closing(log))
