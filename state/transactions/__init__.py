"""Transactions of the source as replication sees them: write-id lists, and what to remember until a commit or an abort.

Rules only: nothing here calls a metastore or moves a file. ``TxnLedger`` and ``ValidWriteIds`` are the two doors.
"""

from __future__ import annotations

from state.transactions.open_transactions import Allocation, SourceTxn, Touched
from state.transactions.valid_write_ids import Difference, ValidWriteIds, WriteIdState, compare
from state.transactions.write_id_mapping import TxnLedger


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
