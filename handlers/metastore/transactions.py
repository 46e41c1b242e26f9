"""A metastore's own transactions and write ids."""

from __future__ import annotations

import socket
from types import NoneType
from typing import TYPE_CHECKING, Final

from handlers.metastore.caller import Caller
from handlers.metastore.calls import Call
from handlers.metastore.generations import V3_1, V4_0
from handlers.structs import (
    AbortTxnRequest,
    AllocateTableWriteIdsRequest,
    AllocateTableWriteIdsResponse,
    CommitTxnRequest,
    GetOpenTxnsInfoResponse,
    GetValidWriteIdsRequest,
    GetValidWriteIdsResponse,
    HeartbeatRequest,
    MaxAllocatedTableWriteIdRequest,
    MaxAllocatedTableWriteIdResponse,
    MetaException,
    NoSuchLockException,
    NoSuchTxnException,
    OpenTxnRequest,
    OpenTxnsResponse,
    TxnAbortedException,
    TxnState,
    TxnType,
)
from state.transactions.valid_write_ids import NO_OPEN_WRITE_ID, ValidWriteIds


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
_HEARTBEAT: Final = Call(
    "heartbeat",
    {"ids": HeartbeatRequest},
    NoneType,
    (NoSuchLockException, NoSuchTxnException, TxnAbortedException),
    changes=False,  # it may be repeated
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
    since=V4_0,
)


class TransactionCalls(Caller):
    """What writers and readers of transactional tables do."""

    def open_txns(self, count: int = 1, *, txn_type: TxnType | None = None) -> list[int]:
        """Open ``count`` transactions and return their ids; they time out without a heartbeat."""
        request = OpenTxnRequest(
            num_txns=count,
            user=self.options.user or self.options.identifier,
            hostname=socket.gethostname(),
            agentInfo=self.options.identifier,
            txn_type=txn_type,
        )
        return self._invoke(OPEN, request).txn_ids

    def allocate_write_ids(self, db: str, table: str, txn_ids: Iterable[int]) -> dict[int, int]:
        """Return the write id of each transaction in a table, drawing it where there is none (since Hive 3.1)."""
        request = AllocateTableWriteIdsRequest(dbName=db, tableName=table, txnIds=list(txn_ids))
        return {pair.txnId: pair.writeId for pair in self._invoke(ALLOCATE, request).txnToWriteIds}

    def commit_txn(self, txn_id: int) -> None:
        """Commit; raise TxnNotOpen where it is unknown or was aborted."""
        self._invoke(COMMIT, CommitTxnRequest(txnid=txn_id))

    def abort_txn(self, txn_id: int) -> None:
        """Abort; raise TxnNotOpen where it is unknown."""
        self._invoke(ABORT, AbortTxnRequest(txnid=txn_id))

    def heartbeat(self, txn_id: int) -> None:
        """Keep a transaction from timing out; raise TxnNotOpen where it is not open."""
        self._invoke(_HEARTBEAT, HeartbeatRequest(txnid=txn_id))

    def open_txns_info(self) -> GetOpenTxnsInfoResponse:
        """Return the highest transaction id, and every transaction that is open, or aborted and not forgotten."""
        return self._invoke(_OPEN_INFO)

    def newest_txn_id(self) -> int:
        """Return the highest transaction id that was drawn."""
        return self.open_txns_info().txn_high_water_mark

    def highest_write_id(self, db: str, table: str) -> int:
        """Return the highest write id of a table, 0 where it has none (since Hive 4.0)."""
        request = MaxAllocatedTableWriteIdRequest(dbName=db, tableName=table)
        return self._invoke(_HIGHEST, request).maxWriteId

    def valid_write_ids(self, tables: Sequence[str]) -> list[ValidWriteIds]:
        """Return the list of each table, given as ``db.table``, in the order given (since Hive 3.1).

        Hive 4 does not say everything where a table has none but invalid ids: ``ValidWriteIds.may_be_cut``.
        """
        request = GetValidWriteIdsRequest(
            fullTableNames=list(tables), validTxnList=self._valid_txns() if self.generation < V4_0 else None
        )
        found = {
            state.fullTableName.lower(): ValidWriteIds.from_reply(
                state.fullTableName, state.writeIdHighWaterMark, state.invalidWriteIds, state.abortedBits
            )
            for state in self._invoke(_VALID, request).tblValidWriteIds
        }
        return [found[table.lower()] for table in tables]

    def _valid_txns(self) -> str:
        """Return the snapshot that Hive 3 wants with the request: ``hwm:lowest open:open,…:aborted,…`` (ValidReadTxnList)."""
        info = self.open_txns_info()
        opened = [txn.id for txn in info.open_txns if txn.state == TxnState.OPEN]
        aborted = [txn.id for txn in info.open_txns if txn.state == TxnState.ABORTED]
        lowest = min(opened, default=NO_OPEN_WRITE_ID)
        return f"{info.txn_high_water_mark}:{lowest}:{_joined(opened)}:{_joined(aborted)}"


def _joined(ids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(ids)))
