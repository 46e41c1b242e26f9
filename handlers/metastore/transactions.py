"""Transactions and write ids: reading their state, taking it over from another metastore, and compactions."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Final

from handlers.metastore.calls import V3_1, V4_0, V4_2, Call
from handlers.metastore.session import CLIENT_NAME, Session
from handlers.structs.exceptions import MetaException, NoSuchTxnException, TxnAbortedException
from handlers.structs.transactions import (
    AbortTxnRequest,
    AllocateTableWriteIdsRequest,
    AllocateTableWriteIdsResponse,
    CommitTxnRequest,
    CompactionRequest,
    CompactionResponse,
    CompactionType,
    GetOpenTxnsInfoResponse,
    GetValidWriteIdsRequest,
    GetValidWriteIdsResponse,
    MaxAllocatedTableWriteIdRequest,
    MaxAllocatedTableWriteIdResponse,
    OpenTxnRequest,
    OpenTxnsResponse,
    ReplayedTxnsForPolicyResult,
    ReplTblWriteIdStateRequest,
    ShowCompactRequest,
    ShowCompactResponse,
    ShowCompactResponseElement,
    TxnState,
)
from state.errors import ServerFault, Unsupported
from state.transactions.valid_write_ids import NO_OPEN_WRITE_ID, ValidWriteIds


ABORTED_BY_BOOTSTRAP: Final = 51004
"""Hive's reason of an abort before a bootstrap (TxnErrorMsg; reference: hive-replication.md §3.12)."""

OPEN: Final = Call("open_txns", {"rqst": OpenTxnRequest}, OpenTxnsResponse, (), changes=True)
COMMIT: Final = Call(
    "commit_txn",
    {"rqst": CommitTxnRequest},
    NoneType,
    (NoSuchTxnException, TxnAbortedException),
    changes=True,
)
ABORT: Final = Call("abort_txn", {"rqst": AbortTxnRequest}, NoneType, (NoSuchTxnException,), changes=True)
ALLOCATE: Final = Call(
    "allocate_table_write_ids",
    {"rqst": AllocateTableWriteIdsRequest},
    AllocateTableWriteIdsResponse,
    (NoSuchTxnException, TxnAbortedException, MetaException),
    changes=True,
    since=V3_1,
)
_OPEN_INFO: Final = Call("get_open_txns_info", {}, GetOpenTxnsInfoResponse, (), changes=False)
_VALID: Final = Call(
    "get_valid_write_ids",
    {"rqst": GetValidWriteIdsRequest},
    GetValidWriteIdsResponse,
    (NoSuchTxnException, MetaException),
    changes=False,
    since=V3_1,
)
_HIGHEST: Final = Call(
    "get_max_allocated_table_write_id",
    {"rqst": MaxAllocatedTableWriteIdRequest},
    MaxAllocatedTableWriteIdResponse,
    (MetaException,),
    changes=False,
    since=V3_1,  # of vendors; Apache's 3.1 answers that it has no such method
)
REPLAYED: Final = Call(
    "get_replayed_txns_for_policy",
    {"policyName": str},
    ReplayedTxnsForPolicyResult,
    (MetaException,),
    changes=False,
    since=V4_2,
)
_WRITE_ID_STATE: Final = Call(
    "repl_tbl_writeid_state", {"rqst": ReplTblWriteIdStateRequest}, NoneType, (), changes=True, since=V3_1
)
_COMPACT: Final = Call("compact2", {"rqst": CompactionRequest}, CompactionResponse, (), changes=True)
_SHOW_COMPACTIONS: Final = Call(
    "show_compact", {"rqst": ShowCompactRequest}, ShowCompactResponse, (), changes=False
)


class TransactionCalls(Session):
    """Calls about transactional tables; those about replayed transactions are in
    ``replayed_transactions``.
    """

    def open_txns_info(self) -> GetOpenTxnsInfoResponse:
        """Return the highest transaction id and every transaction that is open,
        or aborted and not yet forgotten.
        """
        return self._invoke(_OPEN_INFO)

    def newest_txn_id(self) -> int:
        """Return the highest transaction id ever assigned."""
        return self.open_txns_info().txn_high_water_mark

    def highest_write_id(self, db: str, table: str) -> int:
        """Return the highest write id of a table, 0 if it has none (since Hive 3.1)."""
        request = MaxAllocatedTableWriteIdRequest(dbName=db, tableName=table)
        try:
            return self._invoke(_HIGHEST, request).maxWriteId
        except Unsupported:  # the lists of 3.1 are always complete (reference: hive-3.1-source.md §2)
            return self.valid_write_ids([f"{db}.{table}"])[0].high_water_mark

    def valid_write_ids(self, tables: Sequence[str], *, valid_txns: str | None = None) -> list[ValidWriteIds]:
        """Return the write-id list of each table, named as ``db.table``, in the given order (since Hive 3.1).

        For a table that has only invalid write ids, Hive 4 returns an incomplete list: see
        ``ValidWriteIds.may_be_cut``. Raises ServerFault if the answer does not have every table.
        ``valid_txns`` is a text from ``format_valid_txns``: the answer is for a reader with this snapshot
        instead of the current one.
        """
        if valid_txns is None and self.hive_version < V4_0:
            valid_txns = self._valid_txns()
        request = GetValidWriteIdsRequest(fullTableNames=list(tables), validTxnList=valid_txns)
        by_table = {
            state.fullTableName.lower(): ValidWriteIds.from_reply(
                state.fullTableName, state.writeIdHighWaterMark, state.invalidWriteIds, state.abortedBits
            )
            for state in self._invoke(_VALID, request).tblValidWriteIds
        }
        missing = [table for table in tables if table.lower() not in by_table]
        if missing:
            raise ServerFault("the metastore's list of write ids lacks tables", tables=missing[:10])
        return [by_table[table.lower()] for table in tables]

    def _valid_txns(self) -> str:
        """Return the snapshot that Hive 3 requires: ``hwm:lowest open:open,…:aborted,…``
        (ValidReadTxnList).
        """
        info = self.open_txns_info()
        opened = [txn.id for txn in info.open_txns if txn.state == TxnState.OPEN]
        aborted = [txn.id for txn in info.open_txns if txn.state == TxnState.ABORTED]
        return format_valid_txns(info.txn_high_water_mark, opened, aborted)

    def abort_txn(self, txn_id: int) -> None:
        """Abort one of this metastore's own transactions, which is not a replayed one;
        raise TxnNotOpen if it is unknown.
        """
        self._invoke(ABORT, AbortTxnRequest(txnid=txn_id, errorCode=ABORTED_BY_BOOTSTRAP))

    def repl_table_write_ids(self, db: str, table: str, valid_write_ids: str) -> None:
        """Give a table without write ids the state of its source:
        a write-id list as text, with the target's table name.

        Aborted ids stay invalid, and those that need cleaning wait for compaction. A table that already has
        write ids does not change.
        """
        request = ReplTblWriteIdStateRequest(
            validWriteIdlist=valid_write_ids,
            user=CLIENT_NAME,
            hostName=socket.gethostname(),
            dbName=db,
            tableName=table,
        )
        self._invoke(_WRITE_ID_STATE, request)

    def _require_replay(self) -> None:
        """Raise Unsupported before 4.0: requests have no ``txn_type`` there, and ids are read differently."""
        if self.hive_version < V4_0:
            raise Unsupported(
                "replayed transactions require a target with Hive 4",
                hive_version=str(self.hive_version),
                since=str(V4_0),
            )

    def compact(
        self,
        db: str,
        table: str,
        *,
        partition_name: str | None = None,
        kind: CompactionType = CompactionType.MAJOR,
    ) -> CompactionResponse:
        """Request a compaction; it is not ``accepted`` if one already waits or runs."""
        request = CompactionRequest(
            dbname=db,
            tablename=table,
            partitionname=partition_name,
            type=kind,
        )
        return self._invoke(_COMPACT, request)

    def show_compactions(
        self,
        db: str | None = None,
        table: str | None = None,
        *,
        state: str | None = None,
        limit: int | None = None,
    ) -> list[ShowCompactResponseElement]:
        """Return queued, running and past compactions; of one database, table and state if given.

        ``state`` is Hive's letter: ``i`` (initiated), ``w`` (working), ``r`` (ready for cleaning), ``f``
        (failed), ``a`` (did not initiate), ``s`` (succeeded) or ``c`` (refused).
        """
        request = ShowCompactRequest(dbName=db, tbName=table, state=state, limit=limit)
        return self._invoke(_SHOW_COMPACTIONS, request).compacts


def format_valid_txns(high_water_mark: int, opened: Iterable[int], aborted: Iterable[int]) -> str:
    """Return a snapshot of transactions as Hive reads it:
    ``hwm:lowest open:open,…:aborted,…`` (ValidReadTxnList).
    """
    ids = sorted(opened)
    return f"{high_water_mark}:{min(ids, default=NO_OPEN_WRITE_ID)}:{_join_ids(ids)}:{_join_ids(aborted)}"


def _join_ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(ids)))
