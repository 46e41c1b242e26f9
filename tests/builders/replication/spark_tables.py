"""Tables as Spark 4 stores them in a metastore, seen with a session of Spark 4.0 in front of Hive 4.2."""

from __future__ import annotations

from handlers.structs.objects import FieldSchema, Partition, SerDeInfo, StorageDescriptor, Table


def a_spark_table(  # noqa: PLR0913 - what Spark stores
    name: str = "orders",
    *,
    db: str = "shop",
    location: str = "file:/source/shop.db/orders",
    path: str | None = None,
    provider: str = "parquet",
    options: dict[str, str] | None = None,
    parameters: dict[str, str] | None = None,
    partition_columns: tuple[str, ...] = (),
    kind: str = "EXTERNAL_TABLE",
) -> Table:
    """Return a table of one of Spark's data sources; ``path`` is its location if it is not given."""
    return Table(
        tableName=name,
        dbName=db,
        owner="ann",
        tableType=kind,
        sd=StorageDescriptor(
            cols=[FieldSchema(name="id", type="int")],
            location=location,
            inputFormat="org.apache.hadoop.mapred.SequenceFileInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
            serdeInfo=SerDeInfo(
                serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
                parameters={"serialization.format": "1", "path": path or location, **(options or {})},
            ),
        ),
        partitionKeys=[FieldSchema(name=column, type="string") for column in partition_columns],
        parameters={"EXTERNAL": "TRUE", "spark.sql.sources.provider": provider, **(parameters or {})},
    )


def a_spark_partition(owner: Table, value: str, location: str | None = None) -> Partition:
    """Return a partition: its ``path`` is that of the table."""
    assert owner.sd is not None
    assert owner.sd.serdeInfo is not None
    place = location or f"{path_of(owner)}/dt={value}"
    sd = owner.sd.copy()
    sd.location = place
    return Partition(values=[value], dbName=owner.dbName, tableName=owner.tableName, sd=sd, parameters={})


def path_of(item: Table | Partition) -> str | None:
    """Return the directory that Spark reads."""
    assert item.sd is not None
    assert item.sd.serdeInfo is not None
    return (item.sd.serdeInfo.parameters or {}).get("path")
