"""Finds transactions that have ended without an event, so that the relay forgets them.

Hive 3.1 logs no ABORT_TXN for a transaction that times out (reference: hive-3.1-source.md §4). The relay
would keep its record of the transaction permanently, and would read the log again from the transaction's
allocation after each restart.

A transaction that is not open may have committed after the last event that the relay has read. So the relay
first queries the open transactions and then the newest event id. A known transaction that was not open, and
is still known once the relay has read the log up to that id, has ended without an event.

The answer also shows when all transactions from before the relay's start have ended. From then on, the relay
knows every open transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

import structlog

from daemon.sources.log_connections import LogConnections, NotificationLog
from handlers.structs.transactions import TxnState
from state.errors import TidelineError
from state.transactions.open_candidates import OpenCandidates


log = structlog.get_logger(__name__)

ASK_S: Final = 600.0


@dataclass
class EndedTransactions:
    """Queries the metastore at intervals, without waiting for the answer. Use it from one thread only."""

    pool: LogConnections
    clock: Callable[[], float] = time.monotonic
    ask_s: float = ASK_S
    _known: frozenset[int] = frozenset()
    """Transactions known at the time of the query."""
    _answer: Future[tuple[frozenset[int], int]] | None = None
    _asked_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._asked_s = self.clock()

    def forget(self, candidates: OpenCandidates, event_id: int) -> None:
        """Forget transactions that ended without an event, once the relay has read up to ``event_id``."""
        if self._answer is None:
            self._ask(candidates)
        elif self._answer.done():
            self._use(self._answer, candidates, event_id)

    def _ask(self, candidates: OpenCandidates) -> None:
        now_s = self.clock()
        if now_s - self._asked_s < self.ask_s:
            return
        self._asked_s, self._known = now_s, candidates.txn_ids
        if self._known or not candidates.knows_all:
            self._answer = self.pool.submit(_read_open)

    def _use(
        self, answer: Future[tuple[frozenset[int], int]], candidates: OpenCandidates, event_id: int
    ) -> None:
        try:
            still_open, newest = answer.result()
        except TidelineError:  # a later query repeats this
            self._answer = None
            return
        if event_id < newest:
            return
        self._answer = None
        if ended := sorted((self._known & candidates.txn_ids) - still_open):
            log.info("transactions have ended without an event, such as a time-out", txn_ids=ended[:10])
        for txn_id in ended:
            candidates.end(txn_id)
        candidates.learn_open(min(still_open, default=None))


def _read_open(connection: NotificationLog) -> tuple[frozenset[int], int]:
    """Return the open transactions, then the newest event id. The order of the two queries matters."""
    known = connection.open_txns_info().open_txns
    still_open = frozenset(each.id for each in known if each.state == TxnState.OPEN)
    return still_open, connection.current_event_id()
