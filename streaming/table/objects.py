"""A flat table and its hours as the metastore's objects, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.files.paths import parse
from handlers.structs import FieldSchema, SerDeInfo, StorageDescriptor
from state.columns.slot_codec import columns_of, layout_of
from streaming.table.hours import HourColumns
from streaming.table.parameters import PATTERNS, check_columns
from streaming.table.port import HourPartition, TableState


if TYPE_CHECKING:
    from handlers.files.paths import Location
    from handlers.structs import Partition, Table
    from state.columns.slots import Layout


_ORC: Final = "org.apache.hadoop.hive.ql.io.orc"


def state_of(table: Table) -> TableState:
    """Read a table; TableAltered or InvalidRequest where it is no flat table as Tideline writes it."""
    parameters = table.parameters or {}
    keys = [(key.name, key.type) for key in table.partitionKeys or []]
    columns = [(col.name, col.type, col.comment) for col in table.sd.cols or []]
    return TableState(
        layout=layout_of(columns, parameters),
        parameters=parameters,
        columns=HourColumns.of_table(keys, parameters.get(PATTERNS, "")),
        location=parse(table.sd.location or ""),
    )


def hour_partition(state: TableState, partition: Partition) -> HourPartition:
    """Read a partition of the table that is at ``state``; BadPartitionValue where it is no hour."""
    return HourPartition(
        hour=state.columns.hour(partition.values),
        values=tuple(partition.values),
        location=parse(partition.sd.location or ""),
        parameters=partition.parameters or {},
        columns=tuple((col.name, col.type) for col in partition.sd.cols or []),
    )


def checked_columns(layout: Layout, columns: HourColumns) -> list[FieldSchema]:
    """Return the columns of ``layout``; BadInput or LimitExceeded for a name or comment that may not be."""
    listed = columns_of(layout)
    check_columns(((name, comment or "") for name, _, comment in listed), columns.names)
    return [FieldSchema(name=name, type=kind, comment=comment) for name, kind, comment in listed]


def orc_storage(columns: list[FieldSchema], location: Location) -> StorageDescriptor:
    """Return how and where the table's files lie."""
    return StorageDescriptor(
        cols=columns,
        location=str(location),
        inputFormat=f"{_ORC}.OrcInputFormat",
        outputFormat=f"{_ORC}.OrcOutputFormat",
        compressed=False,
        numBuckets=-1,
        serdeInfo=SerDeInfo(serializationLib=f"{_ORC}.OrcSerde", parameters={"serialization.format": "1"}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def moved(storage: StorageDescriptor, location: Location) -> StorageDescriptor:
    """Return the same columns and format at another place."""
    copy = storage.copy()
    copy.location = str(location)
    return copy
