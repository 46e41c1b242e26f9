"""Compaction: asking for one, and seeing what became of it."""
# ruff: noqa: N815, TC001 - field names are those of Hive's interface; annotations are read at run time

from __future__ import annotations

from typing import Annotated

from handlers.structs.enumerations import CompactionType
from handlers.structs.struct import Struct
from handlers.structs.wire import i32, i64


class CompactionRequest(Struct):
    """Asks for a compaction of a table or partition."""

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
    """``accepted`` is False where one is queued or running already."""

    id: Annotated[i64, 1]
    state: Annotated[str, 2]
    accepted: Annotated[bool, 3]
    errormessage: Annotated[str | None, 4] = None


class ShowCompactRequest(Struct):
    """Which compactions to list."""

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
    """All of them."""

    compacts: Annotated[list[ShowCompactResponseElement], 1]
