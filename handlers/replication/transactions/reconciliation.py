"""Transactions that ended at the source without an event, such as those that timed out on some Hive versions.

Their replayed transaction would stay open on the target for eleven days (``metastore.repl.txn.timeout``),
hide later write ids from compaction, and then mark the database as incompatible. Every ``RECONCILE_S``
seconds, or less often with many policies (``idle_turns``), replay compares the open transactions of the
target with those of the source.

A transaction that the source no longer lists as open has ended, but its event may not have been read yet.
Therefore replay reads the newest event id after the list: the metastore writes a commit or abort and its
event in one database transaction, so once replay has applied this event id and the transaction is still open
here, its end has no event. A commit always has an event, so the transaction was aborted, and replay aborts it
here. Replay decides nothing while a loaded table is catching up, because the catch-up replays transactions
that ended long ago.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from handlers.events import TxnAborted
from handlers.replication.context import Context
from handlers.replication.transactions.transaction_replay import TransactionReplay
from handlers.structs.transactions import TxnState


RECONCILE_S: Final = 60.0


class Reconciliation:
    """Finds and aborts transactions of one policy that ended without an event. Used by the projection's
    thread, between batches.
    """

    def __init__(
        self, context: Context, transactions: TransactionReplay, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context = context
        self._transactions = transactions
        self._clock = clock
        self._compared_s = float("-inf")
        self._ended: frozenset[int] = frozenset()
        self._newest_event_id = -1

    def run(self, applied_event_id: int) -> tuple[int, ...]:
        """Compare if it is time, and abort transactions that ended without an event up to
        ``applied_event_id``; return them.

        The caller then records the state.
        """
        if any(load.is_catching_up for load in self._context.tables.loads.waiting()):
            self._ended = frozenset()
            return ()
        turns, now_s = self._context.idle.reconciliations, self._clock()
        if turns.may_take(now_s, self._compared_s, interval_s=RECONCILE_S):
            self._compare()
            turns.take(now_s)
        if not self._ended or applied_event_id < self._newest_event_id:
            return ()
        aborted = tuple(sorted(self._ended & self._open_here()))
        self._ended = frozenset()
        for txn_id in aborted:
            event = TxnAborted(event_id=applied_event_id + 1, time_s=0, kind="ABORT_TXN", txn_id=txn_id)
            if not self._transactions.abort(event):
                self._context.target.abort_replayed(self._context.policy.txn_map_key, txn_id)
            self._context.observer.transaction_reconciled(txn_id)
        return aborted

    def _compare(self) -> None:
        """Note which open transactions the source has ended, and report count and age of the others."""
        here = self._open_here()
        if not here:
            self._ended = frozenset()
            self._context.observer.transactions_open(0, 0.0)
        else:
            listed = self._context.source.open_txns_info()
            self._newest_event_id = self._context.source.current_event_id()
            still_open = {txn.id: txn for txn in listed.open_txns if txn.state == TxnState.OPEN}
            self._ended = frozenset(
                txn_id for txn_id in here - still_open.keys() if txn_id <= listed.txn_high_water_mark
            )
            started_s = [(still_open[txn_id].startedTime or 0) / 1000 for txn_id in here & still_open.keys()]
            oldest_s = min((each for each in started_s if each), default=time.time())
            self._context.observer.transactions_open(len(here), max(0.0, time.time() - oldest_s))
        self._compared_s = self._clock()

    def _open_here(self) -> set[int]:
        """Return the source ids of the open transactions.

        Only the target knows those that a lost state file forgot, and those that a catch-up opened again for
        its table before it gave up.
        """
        txn_ids, target = set(self._context.tables.write_ids.open_txns()), self._context.target
        if target.supports("get_replayed_txns_for_policy"):
            txn_ids |= target.replayed_txns(self._context.policy.txn_map_key).keys()
        return txn_ids
