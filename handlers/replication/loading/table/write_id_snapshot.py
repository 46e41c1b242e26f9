"""The write ids of a table as of one event of the source: the committed ones, once none of them is open.

A transaction that allocated its write id before the event may commit long after it. Replay cannot add its
rows to a loaded table, because the target would have to show them before later ones. So the load waits until
these transactions have ended. Transactions that begin in the meantime do not prolong the wait.

Hive shortens the list of a table whose listed writes are all invalid to its lowest id
(``ValidWriteIds.may_be_cut``). Requests with other snapshots complete such a list: for a reader to whom only
some transactions are invalid, the list contains exactly their write ids.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from handlers.metastore.client import Metastore
from handlers.metastore.transactions import format_valid_txns
from handlers.replication.loading.table.tools import LoadProgress, LoadTools
from handlers.structs.transactions import TxnState
from state.errors import TransactionsOpen, TxnNotOpen
from state.transactions.valid_write_ids import ValidWriteIds


_NAMED_MAX: Final = 20
"""Transactions that an error names."""


class WriteIdStates:
    """The states of the write ids of one table up to ``mark``,
    as the source knows them at the moment of each request.
    """

    def __init__(self, source: Metastore, db: str, table: str, mark: int) -> None:
        self._source = source
        self._name = f"{db}.{table}"
        self._mark = mark

    def is_any_open(self) -> bool:
        """Whether a write id up to the mark is open."""
        valid = self._read()
        if valid.open and valid.open[0] <= self._mark:
            return True
        if not valid.may_be_cut or valid.high_water_mark >= self._mark:
            return False
        txn_ids, _, newest = self._transactions()
        return any(write_id <= self._mark for write_id in self._ids_of(txn_ids, newest))

    def find_holders(self) -> list[int]:
        """Return the open transactions that hold a write id up to the mark."""
        opened, _, newest = self._transactions()
        return self._narrow(opened, newest)

    def read_ended(self) -> ValidWriteIds:
        """Return the list up to the mark, without open write ids; valid once all transactions have ended."""
        valid = self._read()
        if valid.may_be_cut and valid.high_water_mark < self._mark:
            _, aborted, newest = self._transactions()
            ids = self._ids_of(aborted, newest)
        else:
            ids = set(valid.aborted)
        ended = tuple(sorted(write_id for write_id in ids if write_id <= self._mark))
        return ValidWriteIds(self._name, self._mark, (), ended)

    def _read(self, valid_txns: str | None = None) -> ValidWriteIds:
        return self._source.valid_write_ids([self._name], valid_txns=valid_txns)[0]

    def _transactions(self) -> tuple[list[int], list[int], int]:
        """Return the open and the aborted transactions of the source, and the newest id."""
        info = self._source.open_txns_info()
        opened = sorted(txn.id for txn in info.open_txns if txn.state == TxnState.OPEN)
        aborted = sorted(txn.id for txn in info.open_txns if txn.state == TxnState.ABORTED)
        return opened, aborted, info.txn_high_water_mark

    def _ids_of(self, txn_ids: Sequence[int], newest: int) -> set[int]:
        """Return the write ids of some transactions; halve the request as long as the answer may be cut."""
        if not txn_ids:
            return set()
        answer = self._read(format_valid_txns(newest, txn_ids, []))
        if not answer.may_be_cut or len(txn_ids) == 1:
            return set(answer.open)
        middle = len(txn_ids) // 2
        return self._ids_of(txn_ids[:middle], newest) | self._ids_of(txn_ids[middle:], newest)

    def _narrow(self, txn_ids: Sequence[int], newest: int) -> list[int]:
        """Return the transactions among these that hold a write id up to the mark."""
        if not txn_ids:
            return []
        answer = self._read(format_valid_txns(newest, txn_ids, []))
        if not answer.open or answer.open[0] > self._mark:
            return []
        if len(txn_ids) == 1:
            return list(txn_ids)
        middle = len(txn_ids) // 2
        return self._narrow(txn_ids[:middle], newest) + self._narrow(txn_ids[middle:], newest)


def wait_for_open_write_ids(
    states: WriteIdStates, table: str, tools: LoadTools, progress: LoadProgress
) -> None:
    """Wait until no write id up to the mark is open;
    abort the holders after the time-out if the settings allow it.

    Raises TransactionsOpen, with the holders, if the settings do not allow it, and Interrupted.
    """
    deadline = time.monotonic() + tools.settings.open_transaction_timeout_s
    reported = False
    while states.is_any_open():
        tools.step()
        if not reported:
            progress.waiting(table, states.find_holders())
            reported = True
        if time.monotonic() >= deadline:
            _end_holders(states, table, tools)
            deadline = time.monotonic() + tools.settings.open_transaction_timeout_s
        tools.stopping.wait(tools.settings.poll_s)
    if reported:
        progress.waiting(table, ())


def _end_holders(states: WriteIdStates, table: str, tools: LoadTools) -> None:
    holders = states.find_holders()
    if not tools.settings.abort_open_transactions:
        if not holders:
            return  # they have ended meanwhile
        raise TransactionsOpen(
            "transactions that wrote into the table are still open",
            table=f"{tools.policy.source_db}.{table}",
            transactions=holders[:_NAMED_MAX],
            count=len(holders),
            timeout_s=tools.settings.open_transaction_timeout_s,
        )
    for txn_id in holders:
        try:
            tools.source.abort_txn(txn_id)
        except TxnNotOpen:
            continue
