"""Events for tests of replay: every field has a plausible value, so that a test states only what matters to
it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from handlers.events import (
    Embedded,
    Event,
    FilesWritten,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    SourceFile,
    StatisticsUpdated,
    TableAltered,
    TableCreated,
    TableDropped,
    TxnAborted,
    TxnCommitted,
    WriteIdsAllocated,
)
from handlers.structs import tjson
from handlers.structs.objects import FieldSchema, Partition, StorageDescriptor, Table
from handlers.structs.statistics import ColumnStatistics, ColumnStatisticsDesc


def a_table(
    name: str = "orders",
    *,
    db: str = "shop",
    location: str | None = "file:/source/shop.db/orders",
    parameters: dict[str, str] | None = None,
    kind: str = "MANAGED_TABLE",
    partition_columns: tuple[str, ...] = (),
    **fields: Any,
) -> Table:
    """Return a table in the form that the source's metastore embeds."""
    return Table(
        tableName=name,
        dbName=db,
        owner="ann",
        sd=StorageDescriptor(cols=[FieldSchema(name="id", type="int")], location=location),
        partitionKeys=[FieldSchema(name=column, type="string") for column in partition_columns],
        parameters={"transactional": "true"} if parameters is None else parameters,
        tableType=kind,
        **fields,
    )


def embedded(value: Any) -> Embedded[Any]:
    """Wrap ``value`` in the form that messages embed."""
    return Embedded(tjson.encode(value), lambda text: tjson.decode(type(value), text))


def altered(
    event_id: int, name: str = "orders", *, new_name: str | None = None, **fields: Any
) -> TableAltered:
    """Return an ALTER_TABLE that by default changes only parameters."""
    return TableAltered(
        event_id=event_id,
        time_s=0,
        kind="ALTER_TABLE",
        db="shop",
        table=new_name or name,
        before=embedded(a_table(name)),
        after=embedded(a_table(new_name or name)),
        **fields,
    )


def allocated(event_id: int, txn_id: int, write_id: int, table: str = "orders") -> WriteIdsAllocated:
    """Return an ALLOC_WRITE_ID_EVENT."""
    return WriteIdsAllocated(
        event_id=event_id,
        time_s=0,
        kind="ALLOC_WRITE_ID_EVENT",
        db="shop",
        table=table,
        pairs=((txn_id, write_id),),
    )


def changed(event_id: int, before: Table, after: Table) -> TableAltered:
    """Return the ALTER_TABLE from one table to another, which may have the same name."""
    return TableAltered(
        event_id=event_id,
        time_s=0,
        kind="ALTER_TABLE",
        db="shop",
        table=after.tableName,
        before=embedded(before),
        after=embedded(after),
    )


def created(event_id: int, table: str = "orders", **fields: Any) -> TableCreated:
    """Return a CREATE_TABLE."""
    return TableCreated(
        event_id=event_id,
        time_s=0,
        kind="CREATE_TABLE",
        db="shop",
        table=table,
        after=embedded(a_table(table, **fields)),
    )


def written(
    event_id: int,
    *files: SourceFile,
    txn_id: int = 1,
    write_id: int = 1,
    table: str = "orders",
    part: int = 0,
    parts: int = 1,
    listed: bool = False,
    incomplete: str | None = None,
) -> FilesWritten:
    """Return a write part."""
    return FilesWritten(
        event_id=event_id,
        part=part,
        parts=parts,
        time_s=0,
        kind="WRITE",
        db="shop",
        table=table,
        txn_id=txn_id,
        write_id=write_id,
        partition_name="",
        files=files,
        raw_files=tuple(f"{file.uri}###{file.subdir}" for file in files),
        listed=listed,
        incomplete=incomplete,
    )


def committed(
    event_id: int, txn_id: int = 1, *, part: int = 0, parts: int = 1, enriched: bool = True
) -> TxnCommitted:
    """Return a COMMIT_TXN, by default in the relay's form: its write events came before it."""
    return TxnCommitted(
        event_id=event_id,
        part=part,
        parts=parts,
        time_s=0,
        kind="COMMIT_TXN",
        txn_id=txn_id,
        enriched=enriched,
    )


def aborted(event_id: int, txn_id: int = 1) -> TxnAborted:
    """Return an ABORT_TXN."""
    return TxnAborted(event_id=event_id, time_s=0, kind="ABORT_TXN", txn_id=txn_id)


def dropped(event_id: int, table: str = "orders", **fields: Any) -> TableDropped:
    """Return a DROP_TABLE."""
    return TableDropped(event_id=event_id, time_s=0, kind="DROP_TABLE", db="shop", table=table, **fields)


def statistics(event_id: int, table: str = "orders") -> StatisticsUpdated:
    """Return an UPDATE_TBL_COL_STAT_EVENT."""
    return StatisticsUpdated(
        event_id=event_id,
        time_s=0,
        kind="UPDATE_TBL_COL_STAT_EVENT",
        db="shop",
        table=table,
        owner=None,
        statistics=embedded(
            ColumnStatistics(
                statsDesc=ColumnStatisticsDesc(isTblLevel=True, dbName="shop", tableName=table), statsObj=[]
            )
        ),
    )


def a_partition(value: str = "1", table: str = "orders", note: str = "0") -> Partition:
    """Return a partition of a table with one partition column."""
    storage = StorageDescriptor(location=f"file:/source/shop.db/{table}/dt={value}")
    return Partition(values=[value], dbName="shop", tableName=table, sd=storage, parameters={"note": note})


def partitions_added(event_id: int, table: str = "orders", *values: str) -> PartitionsAdded:
    """Return an ADD_PARTITION; its partitions have no directories at the source."""
    added = [a_partition(value, table) for value in values]
    for partition in added:
        partition.sd.location = None
    return PartitionsAdded(
        event_id=event_id,
        time_s=0,
        kind="ADD_PARTITION",
        db="shop",
        table=table,
        owner=None,
        partitions=tuple(map(embedded, added)),
    )


def partition_altered(
    event_id: int, value: str, table: str = "orders", *, note: str = "1", **fields: Any
) -> PartitionsAltered:
    """Return an ALTER_PARTITION that by default changes only a parameter."""
    return PartitionsAltered(
        event_id=event_id,
        time_s=0,
        kind="ALTER_PARTITION",
        db="shop",
        table=table,
        owner=None,
        before=embedded(a_partition(value, table)),
        after=(embedded(a_partition(value, table, note)),),
        **fields,
    )


def partitions_dropped(event_id: int, table: str = "orders", *values: str) -> PartitionsDropped:
    """Return a DROP_PARTITION."""
    return PartitionsDropped(
        event_id=event_id,
        time_s=0,
        kind="DROP_PARTITION",
        db="shop",
        table=table,
        owner=None,
        specs=tuple({"dt": value} for value in values),
    )


def with_object(event: Event, **fields: Any) -> Any:
    """Return an event with the object of its table, as the metastore embeds it."""
    owner: Any = embedded(a_table(event.table or "", **fields))
    changes: dict[str, Any] = {"before" if isinstance(event, TableDropped) else "owner": owner}
    return replace(event, **changes)
