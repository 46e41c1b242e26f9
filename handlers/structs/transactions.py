"""Transactions, write ids and their replicated form."""
# ruff: noqa: N815, TC001 - field names are those of Hive's interface; annotations are read at run time

from __future__ import annotations

from typing import Annotated

from handlers.structs.enumerations import TxnState, TxnType
from handlers.structs.notifications import WriteEventInfo
from handlers.structs.struct import Struct
from handlers.structs.wire import i32, i64


class OpenTxnRequest(Struct):
    """Opens transactions; replayed ones name policy, source ids and ``TxnType.REPL_CREATED``."""

    num_txns: Annotated[i32, 1]
    user: Annotated[str, 2]
    hostname: Annotated[str, 3]
    agentInfo: Annotated[str | None, 4] = None
    replPolicy: Annotated[str | None, 5] = None
    replSrcTxnIds: Annotated[list[i64] | None, 6] = None
    txn_type: Annotated[i32 | None, 7, TxnType] = None


class OpenTxnsResponse(Struct):
    """Ids of the opened (or already mapped) transactions."""

    txn_ids: Annotated[list[i64], 1]


class AbortTxnRequest(Struct):
    """Aborts; ``txnid`` is the source's id where ``txn_type`` is REPL_CREATED."""

    txnid: Annotated[i64, 1]
    replPolicy: Annotated[str | None, 2] = None
    txn_type: Annotated[i32 | None, 3, TxnType] = None
    errorCode: Annotated[i64 | None, 4] = None


class AbortTxnsRequest(Struct):
    """Aborts several of this metastore's own transactions."""

    txn_ids: Annotated[list[i64], 1]
    errorCode: Annotated[i64 | None, 2] = None


class CommitTxnKeyValue(Struct):
    """A table parameter that is set together with the commit."""

    tableId: Annotated[i64, 1]
    key: Annotated[str, 2]
    value: Annotated[str, 3]


class ReplLastIdInfo(Struct):
    """Never sent: broken in Hive 4 (see the DESIGN.md of ``handlers/metastore``)."""

    database: Annotated[str, 1]
    lastReplId: Annotated[i64, 2]
    table: Annotated[str | None, 3] = None
    catalog: Annotated[str | None, 4] = None
    partitionList: Annotated[list[str] | None, 5] = None


class CommitTxnRequest(Struct):
    """Commits; ``txnid`` is the source's id where ``txn_type`` is REPL_CREATED."""

    txnid: Annotated[i64, 1]
    replPolicy: Annotated[str | None, 2] = None
    writeEventInfos: Annotated[list[WriteEventInfo] | None, 3] = None
    replLastIdInfo: Annotated[ReplLastIdInfo | None, 4] = None
    keyValue: Annotated[CommitTxnKeyValue | None, 5] = None
    exclWriteEnabled: Annotated[bool | None, 6] = None
    txn_type: Annotated[i32 | None, 7, TxnType] = None


class HeartbeatRequest(Struct):
    """Keeps a transaction and a lock alive."""

    lockid: Annotated[i64 | None, 1] = None
    txnid: Annotated[i64 | None, 2] = None


class TxnInfo(Struct):
    """One open or aborted transaction."""

    id: Annotated[i64, 1]
    state: Annotated[i32, 2, TxnState]
    user: Annotated[str, 3]
    hostname: Annotated[str, 4]
    agentInfo: Annotated[str | None, 5] = None
    heartbeatCount: Annotated[i32 | None, 6] = None
    metaInfo: Annotated[str | None, 7] = None
    startedTime: Annotated[i64 | None, 8] = None
    lastHeartbeatTime: Annotated[i64 | None, 9] = None


class GetOpenTxnsInfoResponse(Struct):
    """Transactions that are open, or aborted and not yet forgotten."""

    txn_high_water_mark: Annotated[i64, 1]
    open_txns: Annotated[list[TxnInfo], 2]


class TxnToWriteId(Struct):
    """Which write id a transaction has in the table that was asked about."""

    txnId: Annotated[i64, 1]
    writeId: Annotated[i64, 2]


class AllocateTableWriteIdsRequest(Struct):
    """Allocates write ids: for own transactions (``txnIds``) or as the source did (``srcTxnToWriteIdList``)."""

    dbName: Annotated[str, 1]
    tableName: Annotated[str, 2]
    txnIds: Annotated[list[i64] | None, 3] = None
    replPolicy: Annotated[str | None, 4] = None
    srcTxnToWriteIdList: Annotated[list[TxnToWriteId] | None, 5] = None
    reallocate: Annotated[bool | None, 6] = None


class AllocateTableWriteIdsResponse(Struct):
    """The allocated (or already known) write ids."""

    txnToWriteIds: Annotated[list[TxnToWriteId], 1]


class ReplTblWriteIdStateRequest(Struct):
    """Gives a bootstrapped table the write-id state of its source."""

    validWriteIdlist: Annotated[str, 1]
    user: Annotated[str, 2]
    hostName: Annotated[str, 3]
    dbName: Annotated[str, 4]
    tableName: Annotated[str, 5]
    partNames: Annotated[list[str] | None, 6] = None


class GetValidWriteIdsRequest(Struct):
    """Asks for the write-id state of tables, ``db.table``."""

    fullTableNames: Annotated[list[str], 1]
    validTxnList: Annotated[str | None, 2] = None
    writeId: Annotated[i64 | None, 3] = None


class TableValidWriteIds(Struct):
    """Write-id state of a table; ``abortedBits`` is a Java BitSet over the positions of ``invalidWriteIds``."""

    fullTableName: Annotated[str, 1]
    writeIdHighWaterMark: Annotated[i64, 2]
    invalidWriteIds: Annotated[list[i64], 3]
    minOpenWriteId: Annotated[i64 | None, 4] = None
    abortedBits: Annotated[bytes, 5]


class GetValidWriteIdsResponse(Struct):
    """One state per table."""

    tblValidWriteIds: Annotated[list[TableValidWriteIds], 1]


class ReplayedTxnsForPolicyResult(Struct):
    """Open replayed transactions of a policy: source id to target id, both as text (4.2)."""

    replTxnMapEntry: Annotated[dict[str, str] | None, 1] = None


class MaxAllocatedTableWriteIdRequest(Struct):
    """Asks for the highest write id of a table."""

    dbName: Annotated[str, 1]
    tableName: Annotated[str, 2]


class MaxAllocatedTableWriteIdResponse(Struct):
    """0 where none was allocated."""

    maxWriteId: Annotated[i64, 1]
