"""Transactions of the source as replication sees them: write-id lists, and what to remember until a commit or an abort.

Rules only: nothing here calls a metastore or moves a file. ``TxnLedger`` and ``ValidWriteIds`` are the two doors.
"""

from __future__ import annotations

from state.transactions.ledger import TxnLedger
from state.transactions.source_txns import Allocation, SourceTxn, Touched
from state.transactions.write_ids import Difference, ValidWriteIds, WriteIdState, compare


__all__ = [
    "Allocation",
    "Difference",
    "SourceTxn",
    "Touched",
    "TxnLedger",
    "ValidWriteIds",
    "WriteIdState",
    "compare",
]
