"""Requests and responses about transactions, write ids and compactions."""
# ruff: noqa: N815 - field names are those of Hive's interface

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from handlers.structs.notifications import WriteEventInfo
from handlers.structs.struct import Struct, i32, i64, resolve


class TxnType(IntEnum):
    """The purpose of a transaction. With REPL_CREATED, the metastore treats the ids in a request as the
    source's.
    """

    DEFAULT = 0
    REPL_CREATED = 1
    READ_ONLY = 2
    COMPACTION = 3
    MATER_VIEW_REBUILD = 4
    SOFT_DELETE = 5
    REBALANCE_COMPACTION = 6


class TxnState(IntEnum):
    """State of a listed transaction."""

    COMMITTED = 1
    ABORTED = 2
    OPEN = 3


class CompactionType(IntEnum):
    """Kind of a compaction."""

    MINOR = 1
    MAJOR = 2
    REBALANCE = 3
    ABORT_TXN_CLEANUP = 4
    SMART_OPTIMIZE = 5


class OpenTxnRequest(Struct):
    """Opens transactions; a replayed one has the policy, source ids and ``TxnType.REPL_CREATED``."""

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
    """Aborts; ``txnid`` is the source's id if ``txn_type`` is REPL_CREATED."""

    txnid: Annotated[i64, 1]
    replPolicy: Annotated[str | None, 2] = None
    txn_type: Annotated[i32 | None, 3, TxnType] = None
    errorCode: Annotated[i64 | None, 4] = None


class CommitTxnKeyValue(Struct):
    """A table parameter set with the commit."""

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
    """Commits; ``txnid`` is the source's id if ``txn_type`` is REPL_CREATED."""

    txnid: Annotated[i64, 1]
    replPolicy: Annotated[str | None, 2] = None
    writeEventInfos: Annotated[list[WriteEventInfo] | None, 3] = None
    replLastIdInfo: Annotated[ReplLastIdInfo | None, 4] = None
    keyValue: Annotated[CommitTxnKeyValue | None, 5] = None
    exclWriteEnabled: Annotated[bool | None, 6] = None
    txn_type: Annotated[i32 | None, 7, TxnType] = None


class HeartbeatRequest(Struct):
    """Keeps a transaction or a lock alive."""

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
    """The write id of a transaction in the requested table."""

    txnId: Annotated[i64, 1]
    writeId: Annotated[i64, 2]


class AllocateTableWriteIdsRequest(Struct):
    """Allocates write ids: new ones for ``txnIds``, or the source's in ``srcTxnToWriteIdList``."""

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
    """Gives a bootstrapped table the write-id list of its source."""

    validWriteIdlist: Annotated[str, 1]
    user: Annotated[str, 2]
    hostName: Annotated[str, 3]
    dbName: Annotated[str, 4]
    tableName: Annotated[str, 5]
    partNames: Annotated[list[str] | None, 6] = None


class GetValidWriteIdsRequest(Struct):
    """Requests the write-id lists of tables, named as ``db.table``."""

    fullTableNames: Annotated[list[str], 1]
    validTxnList: Annotated[str | None, 2] = None
    writeId: Annotated[i64 | None, 3] = None


class TableValidWriteIds(Struct):
    """Write-id list of a table; ``abortedBits`` is a Java BitSet over the positions of
    ``invalidWriteIds``.
    """

    fullTableName: Annotated[str, 1]
    writeIdHighWaterMark: Annotated[i64, 2]
    invalidWriteIds: Annotated[list[i64], 3]
    minOpenWriteId: Annotated[i64 | None, 4] = None
    abortedBits: Annotated[bytes, 5]


class GetValidWriteIdsResponse(Struct):
    """One write-id list per table."""

    tblValidWriteIds: Annotated[list[TableValidWriteIds], 1]


class ReplayedTxnsForPolicyResult(Struct):
    """Open replayed transactions of a policy: source id to target id, both as text (4.2)."""

    replTxnMapEntry: Annotated[dict[str, str] | None, 1] = None


class MaxAllocatedTableWriteIdRequest(Struct):
    """Requests the highest write id of a table."""

    dbName: Annotated[str, 1]
    tableName: Annotated[str, 2]


class MaxAllocatedTableWriteIdResponse(Struct):
    """The highest write id, 0 if none was allocated."""

    maxWriteId: Annotated[i64, 1]


class CompactionRequest(Struct):
    """Requests a compaction of a table or partition."""

    dbname: Annotated[str, 1]
    tablename: Annotated[str, 2]
    partitionname: Annotated[str | None, 3] = None
    type: Annotated[i32, 4, CompactionType]
    runas: Annotated[str | None, 5] = None
    properties: Annotated[dict[str, str] | None, 6] = None
    initiatorId: Annotated[str | None, 7] = None
    initiatorVersion: Annotated[str | None, 8] = None
    poolName: Annotated[str | None, 9] = None
    numberOfBuckets: Annotated[i32 | None, 10] = None
    orderByClause: Annotated[str | None, 11] = None


class CompactionResponse(Struct):
    """``accepted`` is False if a compaction is already queued or running."""

    id: Annotated[i64, 1]
    state: Annotated[str, 2]
    accepted: Annotated[bool, 3]
    errormessage: Annotated[str | None, 4] = None


class ShowCompactRequest(Struct):
    """Requests a list of compactions."""

    id: Annotated[i64 | None, 1] = None
    poolName: Annotated[str | None, 2] = None
    dbName: Annotated[str | None, 3] = None
    tbName: Annotated[str | None, 4] = None
    partName: Annotated[str | None, 5] = None
    type: Annotated[i32 | None, 6, CompactionType] = None
    state: Annotated[str | None, 7] = None
    limit: Annotated[i64 | None, 8] = None
    order: Annotated[str | None, 9] = None


class ShowCompactResponseElement(Struct):
    """One compaction and its state."""

    dbname: Annotated[str, 1]
    tablename: Annotated[str, 2]
    partitionname: Annotated[str | None, 3] = None
    type: Annotated[i32, 4, CompactionType]
    state: Annotated[str, 5]
    workerid: Annotated[str | None, 6] = None
    start: Annotated[i64 | None, 7] = None
    runAs: Annotated[str | None, 8] = None
    hightestTxnId: Annotated[i64 | None, 9] = None
    metaInfo: Annotated[str | None, 10] = None
    endTime: Annotated[i64 | None, 11] = None
    hadoopJobId: Annotated[str | None, 12] = None
    id: Annotated[i64 | None, 13] = None
    errorMessage: Annotated[str | None, 14] = None
    enqueueTime: Annotated[i64 | None, 15] = None
    workerVersion: Annotated[str | None, 16] = None
    initiatorId: Annotated[str | None, 17] = None
    initiatorVersion: Annotated[str | None, 18] = None
    cleanerStart: Annotated[i64 | None, 19] = None
    poolName: Annotated[str | None, 20] = None
    nextTxnId: Annotated[i64 | None, 21] = None
    txnId: Annotated[i64 | None, 22] = None
    commitTime: Annotated[i64 | None, 23] = None
    hightestWriteId: Annotated[i64 | None, 24] = None


class ShowCompactResponse(Struct):
    """The listed compactions."""

    compacts: Annotated[list[ShowCompactResponseElement], 1]


resolve()
