"""Events of transactions: opened, write ids allocated, files written, committed, aborted, compacted.

Field names are those of ``org.apache.hadoop.hive.metastore.messaging.json.JSON*Message`` (reference §1.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from handlers.decoding.fields import about, source_files
from handlers.events import (
    CompactionCommitted,
    FilesWritten,
    TxnAborted,
    TxnCommitted,
    TxnsOpened,
    WriteIdsAllocated,
)
from state.errors import LimitExceeded, MalformedEvent


if TYPE_CHECKING:
    from handlers.decoding.fields import Fields


def txns_opened(common: dict[str, Any], message: Fields) -> TxnsOpened:
    """OPEN_TXN: a range, or a list of ids that has to be one.

    The range may be empty: a metastore logs that where a replayed transaction is opened again (seen on 4.2).
    """
    ids = message.numbers("txnIds", "txns", least=1)
    if ids:
        first, last = min(ids), max(ids)
        if sorted(ids) != list(range(first, last + 1)):
            raise MalformedEvent("the opened transactions are no range", first=first, last=last, ids=len(ids))
        return TxnsOpened(**common, first=first, last=last)
    first, last = message.required_number("fromTxnId", least=1), message.required_number("toTxnId", least=1)
    if last < first - 1:
        raise MalformedEvent("the opened transactions end before they begin", first=first, last=last)
    if last - first >= message.limits.txns:
        raise LimitExceeded(
            "more transactions are opened at once than the limit allows",
            limit="txns",
            limit_items=message.limits.txns,
            items=last - first + 1,
        )
    return TxnsOpened(**common, first=first, last=last)


def write_ids_allocated(common: dict[str, Any], message: Fields) -> WriteIdsAllocated:
    """ALLOC_WRITE_ID_EVENT: parallel lists of transactions and write ids."""
    txns = message.numbers("txnIdList", "txns", least=1)
    write_ids = message.numbers("writeIdList", "txns", least=1)
    if len(txns) != len(write_ids):
        raise MalformedEvent(
            "transactions and write ids differ in number", txns=len(txns), write_ids=len(write_ids)
        )
    pairs = sorted(zip(txns, write_ids, strict=True), key=lambda pair: pair[1])
    return WriteIdsAllocated(**about(common, message, "dbName", "tableName"), pairs=tuple(pairs))


def files_written(common: dict[str, Any], message: Fields) -> FilesWritten:
    """WRITE (the relay's) and ACID_WRITE_EVENT (other listeners'): the same fields."""
    raw_files = message.texts("files", "files")
    partition_name = message.text("partition") or ""
    if len(partition_name) > message.limits.path_chars:
        raise LimitExceeded(
            "the partition's name is longer than its limit", limit="path_chars", chars=len(partition_name)
        )
    named = about(common, message, "database", "table")
    if named["db"] is None or named["table"] is None:
        raise MalformedEvent("the write event names no table")
    return FilesWritten(
        **named,
        txn_id=message.required_number("txnid", least=1),
        write_id=message.required_number("writeId", least=1),
        partition_name=partition_name,
        files=source_files(raw_files, message.limits),
        raw_files=raw_files,
        owner_text=message.text("tableObjJson"),
        partition_text=message.text("partitionObjJson"),
    )


def txn_committed(common: dict[str, Any], message: Fields) -> TxnCommitted:
    """COMMIT_TXN: only the id before Hive 4.1, then also write ids and databases, pairwise."""
    write_ids = message.numbers("writeIds", "txns")
    databases = message.names("databases", "txns")
    if len(write_ids) != len(databases):
        raise MalformedEvent(
            "write ids and databases differ in number", write_ids=len(write_ids), databases=len(databases)
        )
    return TxnCommitted(
        **common,
        txn_id=message.required_number("txnid", least=1),
        write_ids=write_ids,
        databases=databases,
        enriched=message.flag("enriched") is True,
    )


def txn_aborted(common: dict[str, Any], message: Fields) -> TxnAborted:
    """ABORT_TXN."""
    databases = message.names("dbsUpdated", "txns")
    return TxnAborted(**common, txn_id=message.required_number("txnid", least=1), databases=databases)


def compaction_committed(common: dict[str, Any], message: Fields) -> CompactionCommitted:
    """COMMIT_COMPACTION_EVENT."""
    return CompactionCommitted(
        **about(common, message, "dbname", "tableName"),
        txn_id=message.required_number("txnid", least=1),
        partition_name=message.text("partName"),
    )
