"""Fetches the write events of commits, in parallel.

COMMIT_TXN does not name the files; they are read by transaction (``get_all_write_event_info``). Commits that report that they wrote
nothing (Hive 4.1: ``writeIds`` is empty) need no call. The calls of one batch run in parallel on additional connections, because
sequential round trips would be the slowest part of the relay. The results are sorted, so that a record has the same bytes at every
repetition.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol

from handlers.decoding.messages import unpack
from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.structs.notifications import NotificationEvent, WriteEventInfo


_COMMIT: Final = "COMMIT_TXN"


class NotificationLog(Protocol):
    """One connection to a metastore's notification log; used by one thread at a time."""

    def current_event_id(self) -> int:
        """Return the id of the newest event; 0 if there never was one."""

    def next_events(self, after: int, limit: int) -> list[NotificationEvent]:
        """Return at most ``limit`` events with ids above ``after``, in order."""

    def write_events(self, txn_id: int) -> list[WriteEventInfo]:
        """Return the write events of the committed transaction."""

    def close(self) -> None:
        """Close the connection."""


Connect = Callable[[], NotificationLog]


@dataclass(frozen=True, slots=True)
class Commit:
    """A COMMIT_TXN message; ``wrote`` is None if this Hive version does not report it."""

    txn_id: int
    wrote: bool | None


def parse_commit(event: NotificationEvent) -> Commit | None:
    """Parse a COMMIT_TXN; return None for other events, and for a message that cannot be read (its record reports that)."""
    if event.eventType != _COMMIT:
        return None
    try:
        message = unpack(event.message, event.messageFormat)
    except BadInput:
        return None
    txn_id: Any = message.get("txnid")
    write_ids = message.get("writeIds")
    if type(txn_id) is not int:
        return None
    return Commit(txn_id, bool(write_ids) if isinstance(write_ids, list) else None)


class WriteEventReader:
    """Fetches the write events of many transactions in parallel."""

    def __init__(self, connect: Connect, connections: int) -> None:
        self._connect = connect
        self._size = connections
        self._idle: SimpleQueue[NotificationLog | None] = SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None

    def fetch(
        self, commits: Sequence[tuple[int, int]], log: NotificationLog
    ) -> dict[int, list[WriteEventInfo]]:
        """Return the write events by event id; ``commits`` are (event id, transaction id), and ``log`` is an idle connection."""
        if len(commits) < 2 or self._size < 1:
            return {event_id: _sort(log.write_events(txn_id)) for event_id, txn_id in commits}
        answers = self._workers().map(self._fetch, [txn_id for _, txn_id in commits])
        return {event_id: writes for (event_id, _), writes in zip(commits, answers, strict=True)}

    def close(self) -> None:
        """Close the connections and end the threads."""
        if self._pool is None:
            return
        self._pool.shutdown(cancel_futures=True)
        self._pool = None
        with ExitStack() as closing_all:
            while not self._idle.empty():
                log = self._idle.get()
                if log is not None:
                    closing_all.enter_context(closing(log))

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._size, thread_name_prefix="relay-writes")
            for _ in range(self._size):
                self._idle.put(None)
        return self._pool

    def _fetch(self, txn_id: int) -> list[WriteEventInfo]:
        log = self._idle.get()
        try:
            log = log or self._connect()
            return _sort(log.write_events(txn_id))
        finally:
            self._idle.put(log)


def _sort(writes: list[WriteEventInfo]) -> list[WriteEventInfo]:
    """Sort write events, which the metastore returns in any order: a split event must be completed with exactly the same parts."""
    return sorted(
        writes, key=lambda write: (write.writeId, write.database, write.table, write.partition or "")
    )
