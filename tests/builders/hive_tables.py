"""Tables and partitions as Hive's compiler would hand them to the metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.structs.objects import FieldSchema, Partition, SerDeInfo, StorageDescriptor, Table
from handlers.structs.statistics import (
    ColumnStatistics,
    ColumnStatisticsData,
    ColumnStatisticsDesc,
    ColumnStatisticsObj,
    LongColumnStatsData,
)


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


ORC = "org.apache.hadoop.hive.ql.io.orc"
ACID = {"transactional": "true", "transactional_properties": "default"}


def storage(
    location: str | None = None, columns: Sequence[tuple[str, str]] = (("id", "int"),)
) -> StorageDescriptor:
    return StorageDescriptor(
        cols=[FieldSchema(name=name, type=kind) for name, kind in columns],
        location=location,
        inputFormat=f"{ORC}.OrcInputFormat",
        outputFormat=f"{ORC}.OrcOutputFormat",
        compressed=False,
        numBuckets=-1,
        serdeInfo=SerDeInfo(name="", serializationLib=f"{ORC}.OrcSerde", parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def a_table(
    db: str,
    name: str,
    *,
    partition_keys: Sequence[str] = (),
    parameters: Mapping[str, str] | None = None,
    external: bool = False,
    location: str | None = None,
    columns: Sequence[tuple[str, str]] = (("id", "int"),),
) -> Table:
    """A plain table; ``parameters=ACID`` makes it transactional."""
    extra = {"EXTERNAL": "TRUE"} if external else {}
    return Table(
        tableName=name,
        dbName=db,
        owner="tester",
        createTime=0,
        lastAccessTime=0,
        retention=0,
        sd=storage(location, columns),
        partitionKeys=[FieldSchema(name=key, type="string") for key in partition_keys],
        parameters={**(parameters or {}), **extra},
        tableType="EXTERNAL_TABLE" if external else "MANAGED_TABLE",
    )


def a_partition(table: Table, *values: str, parameters: Mapping[str, str] | None = None) -> Partition:
    """A partition of a table that the metastore returned (its location is known), in the usual directory."""
    keys = [key.name for key in table.partitionKeys or []]
    name = "/".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))
    descriptor = table.sd.copy()
    descriptor.location = f"{table.sd.location}/{name}"
    return Partition(
        values=list(values),
        dbName=table.dbName,
        tableName=table.tableName,
        createTime=0,
        lastAccessTime=0,
        sd=descriptor,
        parameters=dict(parameters or {}),
    )


def whole_number_statistics(
    db: str, table: str, column: str, distinct: int, *, partition_name: str | None = None
) -> ColumnStatistics:
    data = LongColumnStatsData(lowValue=1, highValue=9, numNulls=0, numDVs=distinct)
    return ColumnStatistics(
        statsDesc=ColumnStatisticsDesc(
            isTblLevel=partition_name is None,
            dbName=db,
            tableName=table,
            partName=partition_name,
            lastAnalyzed=1,
        ),
        statsObj=[
            ColumnStatisticsObj(colName=column, colType="int", statsData=ColumnStatisticsData(longStats=data))
        ],
        engine="hive",
    )
