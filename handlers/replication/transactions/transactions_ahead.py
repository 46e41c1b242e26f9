"""Opens transactions on the target ahead of their turn, in parallel with replay.

The target's metastore opens a transaction while it commits another one. So replay starts to open later
transactions early, and waits for them only when it allocates their write ids.

One thread at a time, of the threads that the target's policies share (``Context.threads``), opens them in the
order in which they were started. Before replay ends a transaction, its opening has finished or was cancelled,
because opening it later would open a second one. When a batch ends, no opening is in progress. If one fails,
replay starts no more in this batch. Replay opens the transaction at its turn, so that a failure is reported
there.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, wait

from handlers.failpoints import failpoint
from handlers.metastore.client import Metastore
from handlers.replication.context import Context
from state.errors import TidelineError


class TransactionsAhead:
    """Transactions that were opened ahead, or will be,
    and have not had their turn. Used by replay's thread.
    """

    def __init__(self, context: Context) -> None:
        """Without lanes in ``context``, opens transactions at once and on replay's own connection."""
        self._context = context
        self._started: dict[int, Future[int | None]] = {}
        """The target's transactions by source transaction; None if it could not be opened."""
        self._thread = context.threads.user(1)
        self._client = context.target.clone()
        self.has_failed = False
        """Whether an opening of this batch failed."""
        self._opened = 0

    def begin(self) -> None:
        """Start a batch."""
        self.has_failed = False

    def start(self, txn_ids: Iterable[int]) -> None:
        """Open these source transactions, in order, unless that was started before. Without lanes, raises the
        target's errors.
        """
        for txn_id in txn_ids:
            if txn_id not in self._started and not self.has_failed:
                self._started[txn_id] = self._start(txn_id)

    def _start(self, txn_id: int) -> Future[int | None]:
        context = self._context
        if not context.lanes:
            future: Future[int | None] = Future()
            future.set_result(self._open(context.target, txn_id))
            return future
        return self._thread.submit(self._open_ahead, txn_id)

    def _open_ahead(self, txn_id: int) -> int | None:
        if self.has_failed:
            return None
        try:
            return self._open(self._client, txn_id)
        except TidelineError:
            self.has_failed = True
            return None

    def _open(self, target: Metastore, txn_id: int) -> int:
        failpoint("replay.before-open")
        opened = target.open_replayed(self._context.policy.txn_map_key, txn_id)
        self._opened += 1
        failpoint("replay.after-open")
        return opened

    def wait(self, txn_ids: Iterable[int]) -> None:
        """Wait until the openings that were started for these source transactions have succeeded or
        failed.
        """
        wait([self._started[txn_id] for txn_id in txn_ids if txn_id in self._started])

    def is_open(self, txn_id: int) -> bool:
        """Whether the transaction is known to be open, without waiting for it."""
        future = self._started.get(txn_id)
        if future is None or not future.done() or future.cancelled():
            return False
        return future.result() is not None

    def find(self, txn_id: int) -> int | None:
        """Return the target's transaction;
        None if it was not opened ahead, and is not being opened after this call.
        """
        future = self._started.get(txn_id)
        if future is None:
            return None
        if future.cancel() or future.result() is None:
            del self._started[txn_id]
            return None
        return future.result()

    def forget(self, txn_id: int) -> None:
        """Note that the mapping knows the transaction, or that it has ended."""
        self._started.pop(txn_id, None)

    def take_count(self) -> int:
        """Return how many were opened since the last call; must be called while none is being opened."""
        opened, self._opened = self._opened, 0
        return opened

    def stop(self) -> None:
        """Cancel pending work, and wait for the rest; open transactions stay known."""
        for started in self._started.values():
            started.cancel()
        wait([started for started in self._started.values() if not started.cancelled()])
        self._started = {txn_id: started for txn_id, started in self._started.items() if self.is_open(txn_id)}

    def clear(self) -> None:
        """Forget everything, as after a restart."""
        self.stop()
        self._started.clear()

    def close(self) -> None:
        """Release the connection."""
        self.stop()
        self._thread.close()
        self._client.close()
