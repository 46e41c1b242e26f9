"""Fetches the write events of commits, in parallel and in bounded memory.

COMMIT_TXN does not name the files, so this module reads the write events of the transaction
(``get_all_write_event_info``). Commits that report that they wrote nothing (Hive 4.1: ``writeIds`` is empty)
need no call. The calls of one batch run in parallel on additional connections, because sequential round trips
would be the slowest part of the relay. Write events are processed one by one (``CommitParts``), so that a
transaction with a hundred thousand of them does not have to fit into memory.

One transaction must not block the relay. If the answer for a transaction is too large, or if the metastore
fails while it answers, this module reads the write events page by page: for each database (and table, if
known). If that fails, too, the relay publishes the commit without them and with the reason; each policy
concerned then reads them for itself (``handlers.replication.transactions.copies.source_writes``). Failures of
the metastore count only after ``ATTEMPTS_MIN`` attempts in ``PATIENCE_S`` seconds during which it serves the
notification log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from daemon.sources.log_connections import Connect, LogConnections, NotificationLog
from handlers.decoding.messages import unpack
from handlers.decoding.records.commit_parts import CommitParts
from handlers.structs.notifications import NotificationEvent
from state.errors import BadInput, MetastoreUnavailable, Refused, ServerFault, TidelineError, Unsupported


ATTEMPTS_MIN: Final = 5
PATIENCE_S: Final = 60.0
_COMMIT: Final = "COMMIT_TXN"


@dataclass(frozen=True, slots=True)
class Commit:
    """A COMMIT_TXN message.

    ``wrote`` is None and ``databases`` is empty if this Hive version does not report them.
    """

    txn_id: int
    wrote: bool | None
    databases: tuple[str, ...] = ()


def parse_commit(event: NotificationEvent) -> Commit | None:
    """Parse a COMMIT_TXN; None for other events, and for an unreadable message.

    The record of an unreadable message reports the problem.
    """
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
    named = message.get("databases")
    databases = {name for name in named if type(name) is str} if isinstance(named, list) else set()
    return Commit(txn_id, bool(write_ids) if isinstance(write_ids, list) else None, tuple(sorted(databases)))


@dataclass(slots=True)
class CommitWrites:
    """The write events of one commit, or the reason why they are missing."""

    commit: Commit
    parts: CommitParts
    problem: TidelineError | None = None

    def give_up(self, error: TidelineError) -> None:
        """Record that the commit goes out without write events, because of ``error``."""
        self.parts.clear()
        self.problem = error


@dataclass(slots=True)
class _Trouble:
    """The failures of the metastore in answers about one transaction."""

    since_s: float
    attempts: int = 0


class WriteEventReader:
    """Fetches the write events of many transactions in parallel."""

    def __init__(
        self, connect: Connect, connections: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connections = LogConnections(connect, connections, "relay-writes")
        self._clock = clock
        self._troubles: dict[int, _Trouble] = {}

    def fetch(self, commits: Sequence[CommitWrites], log: NotificationLog) -> None:
        """Fill ``commits``; ``log`` is an idle connection. Raises Unsupported, Transient."""
        if len(commits) < 2 or self._connections.size < 1:
            for writes in commits:
                self._read(writes, log)
            return
        self._connections.call_for_each(self._read, commits)

    def close(self) -> None:
        """Close the connections and end the threads."""
        self._connections.close()

    def _read(self, writes: CommitWrites, log: NotificationLog) -> None:
        """Read the write events of one transaction in one call or, if that fails, page by page."""
        txn_id = writes.commit.txn_id
        writes.parts.clear()
        try:
            if txn_id in self._troubles or not self._read_whole(writes, log):
                self._read_pages(writes, log)
        except (MetastoreUnavailable, ServerFault) as error:
            if not self._is_hopeless(txn_id):
                raise
            writes.give_up(error)
        self._troubles.pop(txn_id, None)

    def _read_whole(self, writes: CommitWrites, log: NotificationLog) -> bool:
        """Read all write events in one call.

        Returns False if the answer is too large, or the metastore refuses.
        """
        try:
            log.receive_write_events(writes.commit.txn_id, writes.parts)
        except Unsupported:
            raise
        except (BadInput, Refused) as error:
            writes.give_up(error)
            return False
        return True

    def _read_pages(self, writes: CommitWrites, log: NotificationLog) -> None:
        """Read the write events of one database after another; stop if those of one are unreadable."""
        writes.parts.clear()
        if writes.commit.databases:
            writes.problem = None
        elif writes.problem is None:  # the metastore failed before, and does not report the databases
            log.receive_write_events(writes.commit.txn_id, writes.parts)
        for db in writes.commit.databases:
            writes.parts.keep()
            try:
                log.receive_write_events(writes.commit.txn_id, writes.parts, db=db)
            except (BadInput, Refused) as error:
                writes.give_up(error)
                return

    def _is_hopeless(self, txn_id: int) -> bool:
        """Count a failure.

        Returns whether there were enough failures to relay the commit without write events.
        """
        trouble = self._troubles.setdefault(txn_id, _Trouble(self._clock()))
        trouble.attempts += 1
        return trouble.attempts >= ATTEMPTS_MIN and self._clock() - trouble.since_s >= PATIENCE_S
