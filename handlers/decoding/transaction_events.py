"""Builds events of transactions: opened, write ids allocated, committed, aborted, compacted.

Field names are those of ``org.apache.hadoop.hive.metastore.messaging.json.JSON*Message`` (reference:
hive-replication.md §1.2).
"""

from __future__ import annotations

from typing import Any

from handlers.decoding.fields import Fields, fill_names
from handlers.events import (
    CompactionCommitted,
    TxnAborted,
    TxnCommitted,
    TxnsOpened,
    Unhandled,
    WriteIdsAllocated,
)
from state.errors import LimitExceeded, MalformedEvent


def build_txns_opened(common: dict[str, Any], message: Fields) -> TxnsOpened:
    """OPEN_TXN: a range of ids, or a list that must form a range.

    The range may be empty: a metastore logs one if a replayed transaction is opened again (seen on 4.2).
    """
    ids = message.numbers("txnIds", "txns", least=1)
    if ids:
        first, last = min(ids), max(ids)
        if sorted(ids) != list(range(first, last + 1)):
            raise MalformedEvent(
                "the opened transactions do not form a range", first=first, last=last, ids=len(ids)
            )
        return TxnsOpened(**common, first=first, last=last)
    first, last = message.required_number("fromTxnId", least=1), message.required_number("toTxnId", least=1)
    if last < first - 1:
        raise MalformedEvent("the range of opened transactions ends before it begins", first=first, last=last)
    if last - first >= message.limits.txns:
        raise LimitExceeded(
            "one event opens more transactions than the limit allows",
            limit="txns",
            limit_items=message.limits.txns,
            items=last - first + 1,
        )
    return TxnsOpened(**common, first=first, last=last)


def build_write_ids_allocated(common: dict[str, Any], message: Fields) -> WriteIdsAllocated | Unhandled:
    """ALLOC_WRITE_ID_EVENT: parallel lists of transactions and write ids.

    For CREATE TABLE AS SELECT, Hive 3.1 logs a second event, with "db.table" as the table's name; no such
    table exists, so this event has no effect (reference: hive-3.1-source.md §1).
    """
    names = fill_names(common, message, "dbName", "tableName")
    if names["table"].startswith(f"{names['db']}."):
        return Unhandled(**names, is_known=True)
    txns = message.numbers("txnIdList", "txns", least=1)
    write_ids = message.numbers("writeIdList", "txns", least=1)
    if len(txns) != len(write_ids):
        raise MalformedEvent(
            "the lists of transactions and write ids differ in length",
            txns=len(txns),
            write_ids=len(write_ids),
        )
    pairs = sorted(zip(txns, write_ids, strict=True), key=lambda pair: pair[1])
    return WriteIdsAllocated(**names, pairs=tuple(pairs))


def build_txn_committed(common: dict[str, Any], message: Fields) -> TxnCommitted:
    """COMMIT_TXN: the id; from Hive 4.1 on also pairs of write ids and databases."""
    write_ids = message.numbers("writeIds", "txns")
    databases = message.names("databases", "txns")
    if len(write_ids) != len(databases):
        raise MalformedEvent(
            "the lists of write ids and databases differ in length",
            write_ids=len(write_ids),
            databases=len(databases),
        )
    return TxnCommitted(
        **common,
        txn_id=message.required_number("txnid", least=1),
        write_ids=write_ids,
        databases=databases,
        enriched=message.flag("enriched") is True,
        listed=message.flag("listed") is True,
        incomplete=message.text("incomplete"),
    )


def build_txn_aborted(common: dict[str, Any], message: Fields) -> TxnAborted:
    """ABORT_TXN."""
    databases = message.names("dbsUpdated", "txns")
    return TxnAborted(**common, txn_id=message.required_number("txnid", least=1), databases=databases)


def build_compaction_committed(common: dict[str, Any], message: Fields) -> CompactionCommitted:
    """COMMIT_COMPACTION_EVENT."""
    return CompactionCommitted(
        **fill_names(common, message, "dbname", "tableName"),
        txn_id=message.required_number("txnid", least=1),
        partition_name=message.text("partName"),
        compaction_type=message.text("type"),
    )
