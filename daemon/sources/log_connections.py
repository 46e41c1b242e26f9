"""Connections to a metastore's notification log, and threads that each use one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from queue import SimpleQueue
from typing import Protocol, TypeVar

from handlers.metastore.calls import Receiver
from handlers.replication.target.same_table import SameTableSource
from handlers.structs.notifications import NotificationEvent
from handlers.structs.transactions import GetOpenTxnsInfoResponse


R = TypeVar("R")
T = TypeVar("T")


class NotificationLog(SameTableSource, Protocol):
    """One connection to a metastore's notification log. Only one thread at a time may use it."""

    def current_event_id(self) -> int:
        """Return the id of the newest event; 0 if there never was one."""

    def next_events(self, after: int, limit: int) -> list[NotificationEvent]:
        """Return at most ``limit`` events with ids above ``after``, in order."""

    def receive_write_events(self, txn_id: int, receiver: Receiver, *, db: str | None = None) -> None:
        """Pass the write events of a transaction to ``receiver``, optionally only those of one database."""

    def has_event(self, event_id: int, db: str, tables: Sequence[str] = ()) -> bool:
        """Return whether the event concerns the database (and one of the tables)."""

    def open_txns_info(self) -> GetOpenTxnsInfoResponse:
        """Return the open transactions, and the aborted ones that the metastore still remembers."""

    def database_names(self) -> list[str]:
        """Return the names of all databases."""

    def table_names(self, db: str) -> list[str]:
        """Return the names of all tables of a database."""

    def partition_names(self, db: str, table: str, *, limit: int) -> list[str]:
        """Return the names of at most ``limit`` partitions of a table."""

    def close(self) -> None:
        """Close the connection."""


Connect = Callable[[], NotificationLog]


class LogConnections:
    """Runs functions in ``size`` threads, which start at the first use. Use it from one thread only."""

    def __init__(self, connect: Connect, size: int, name: str) -> None:
        self._connect = connect
        self.size = size
        self._name = name
        self._idle: SimpleQueue[NotificationLog | None] = SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, function: Callable[[NotificationLog], R]) -> Future[R]:
        """Call ``function`` with a connection in one of the threads."""
        return self._workers().submit(self._call, self._idle, function)

    def call_for_each(self, function: Callable[[T, NotificationLog], object], items: Iterable[T]) -> None:
        """Call ``function`` with each item and a connection, and wait for all calls. After a failure, no
        further call begins. Raises the first failure.
        """
        workers, idle = self._workers(), self._idle
        for _ in workers.map(lambda item: self._call(idle, lambda log: function(item, log)), items):
            pass

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.size, thread_name_prefix=self._name)
            self._idle = SimpleQueue()
            for _ in range(self.size):
                self._idle.put(None)
        return self._pool

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
