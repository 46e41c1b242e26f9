"""The observer of replay: receives counts and durations, of single events and of whole batches.

The counts of a batch cover work in parallel with replay, or ahead of its turn. The end of the batch reports
them once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from handlers.replication.tables.quarantine import QuarantinedTable


@dataclass(slots=True)
class LaneCounts:
    """Work of the lanes (``work_ahead``)."""

    applied: int = 0
    """Events that a lane applied ahead of their turn."""
    returned: int = 0
    """Events that replay applied itself at their turn, because no lane had begun them, or because the lane
    failed."""
    busy_s: float = 0.0
    """Time for which lanes applied events, all lanes together."""
    queued_s: float = 0.0
    """Time that events waited for a free lane."""
    waited_s: float = 0.0
    """Time that replay waited for a lane at the turn of its event."""


@dataclass(slots=True)
class LookaheadCounts:
    """Openings and allocations ahead (``transactions.lookahead``)."""

    transactions: int = 0
    """Transactions opened ahead, with the first one of each batch, which had its turn."""
    write_ids: int = 0
    """Write ids allocated together with others."""
    calls: int = 0
    """Calls that allocated them."""


@dataclass(frozen=True, slots=True)
class BatchOverlap:
    """The counts of one batch."""

    events: int
    """Events of the batch that may concern the policy."""
    lanes: LaneCounts
    lookahead: LookaheadCounts


class Observer(Protocol):
    """Receives counts and durations of replay. Implementations are thread-safe and never raise."""

    def event_applied(self, kind: str, seconds: float) -> None:
        """An event in scope took effect on the target in ``seconds``."""

    def event_skipped(self, kind: str, reason: str) -> None:
        """An event had no effect.

        The reasons are ``out-of-scope``, ``merged``, ``quarantined``, ``loading``, ``loaded``, ``on-target``
        and ``nothing-to-do``.
        """

    def batch_replayed(self, overlap: BatchOverlap) -> None:
        """Called when a batch with events of the policy has ended, possibly with an error."""

    def table_quarantined(self, db: str, entry: QuarantinedTable) -> None:
        """A table of the source database ``db`` entered quarantine."""

    def table_unreplicated(self, table: str, code: str, reason: str) -> None:
        """``table`` (``db.table``) is of a kind without replication."""

    def transactions_open(self, count: int, oldest_s: float) -> None:
        """``count`` replayed transactions are open; the oldest began at the source ``oldest_s`` s ago."""

    def transaction_reconciled(self, txn_id: int) -> None:
        """The target aborted a transaction because it ended at the source without an event."""

    def commit_without_writes(self, txn_id: int) -> None:
        """A transaction with write ids committed without any write event:
        its writer logs none, or dml.events is off.
        """

    def constraint_left_out(self, table: str, name: str, parent: str) -> None:
        """The target lacks foreign key ``name`` of ``table``, because the table it refers to is not there."""


class SilentObserver:
    """An observer that ignores everything."""

    def event_applied(self, kind: str, seconds: float) -> None:
        """Do nothing."""

    def event_skipped(self, kind: str, reason: str) -> None:
        """Do nothing."""

    def batch_replayed(self, overlap: BatchOverlap) -> None:
        """Do nothing."""

    def table_quarantined(self, db: str, entry: QuarantinedTable) -> None:
        """Do nothing."""

    def table_unreplicated(self, table: str, code: str, reason: str) -> None:
        """Do nothing."""

    def transactions_open(self, count: int, oldest_s: float) -> None:
        """Do nothing."""

    def transaction_reconciled(self, txn_id: int) -> None:
        """Do nothing."""

    def commit_without_writes(self, txn_id: int) -> None:
        """Do nothing."""

    def constraint_left_out(self, table: str, name: str, parent: str) -> None:
        """Do nothing."""
