"""Schema files of Avro tables: which are copied, to where, and what happens if one cannot be read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from handlers.files.paths import Location
from handlers.replication.effects import avro_schemas
from handlers.replication.effects.avro_schemas import describe_schemas, locate_schema
from handlers.structs.objects import SerDeInfo, Table
from state.errors import Unsupported
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.replay_events import (
    a_partition,
    a_table,
    changed,
    created,
    embedded,
    partitions_added,
)


AVRO = "org.apache.hadoop.hive.serde2.avro.AvroSerDe"
KEY = "avro.schema.url"


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[FakedReplica]:
    replica = faked_replica(tmp_path)
    replica.target.databases["shop_r"].locationUri = f"file:{tmp_path}/target"
    (tmp_path / "source").mkdir()
    yield replica
    replica.projection.close()


def avro_table(url: str, serde: str = AVRO, **serde_properties: str) -> Table:
    table = a_table(parameters={KEY: url, "transactional": "true"})
    table.sd.serdeInfo = SerDeInfo(serializationLib=serde, parameters=serde_properties)
    return table


def write(replica: FakedReplica, content: bytes, name: str = "a.avsc") -> str:
    path = replica.directory / "source" / name
    path.write_bytes(content)
    return f"file:{path}"


def copy_of(replica: FakedReplica, content: bytes, name: str = "a.avsc") -> str:
    digest = hashlib.sha256(content).hexdigest()[:32]
    return f"file:{replica.directory}/target/.tideline_schemas/{digest}/{name}"


def create(replica: FakedReplica, table: Table) -> Table | None:
    replica.projection.apply([replace(created(1), after=embedded(table))])
    return replica.target.tables.get("orders")


def test_the_properties_of_table_serde_and_partition_name_copies_of_the_content(
    replica: FakedReplica,
) -> None:
    first, second = write(replica, b"first"), write(replica, b"second", "b.avsc")
    table = avro_table(first, avroSchemaUrl=second)
    table.partitionKeys = a_table(partition_columns=("dt",)).partitionKeys
    made = create(replica, table)
    assert made is not None
    assert (made.parameters or {})[KEY] == copy_of(replica, b"first")
    assert made.sd.serdeInfo is not None
    assert made.sd.serdeInfo.parameters == {"avroSchemaUrl": copy_of(replica, b"second", "b.avsc")}
    partition = a_partition()
    partition.sd.location = None
    partition.sd.serdeInfo = SerDeInfo(serializationLib=AVRO, parameters={KEY: first})
    event = replace(partitions_added(2, "orders", "1"), partitions=(embedded(partition),))
    replica.projection.apply([event])
    ((added,),) = [list(each.values()) for each in replica.target.partitions.values()]
    assert added.sd.serdeInfo is not None
    assert added.sd.serdeInfo.parameters == {KEY: copy_of(replica, b"first")}
    assert Path(copy_of(replica, b"first").removeprefix("file:")).read_bytes() == b"first"


def test_a_changed_file_becomes_another_copy_at_the_next_event_and_a_difference_before(
    replica: FakedReplica,
) -> None:
    url = write(replica, b"old")
    table = avro_table(url)
    made = create(replica, table)
    assert made is not None
    assert describe(replica, table, at_source=True) == describe(replica, made, at_source=False)
    assert describe(replica, table, at_source=False) == url, "the target must not name a file of the source"
    write(replica, b"new")
    assert describe(replica, table, at_source=True) != describe(replica, made, at_source=False)
    replica.projection.apply([changed(2, table, table)])
    assert (replica.target.tables["orders"].parameters or {})[KEY] == copy_of(replica, b"new")
    assert Path(copy_of(replica, b"old").removeprefix("file:")).exists(), "queries may still read it"


def describe(replica: FakedReplica, table: Table, *, at_source: bool) -> str:
    described = describe_schemas(table, replica.context.files, {}, at_source=at_source)
    return (described.parameters or {})[KEY]


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("file:{source}/missing.avsc", "file-lost"),
        ("file:/etc/hostname", "unsafe-path"),
        ("relative/a.avsc", "unsafe-path"),
        ("http://nn:9870/webhdfs/v1/a.avsc?op=OPEN", "unsupported"),
        ("file:{source}/large.avsc", "limit-exceeded"),
    ],
)
def test_a_table_whose_schema_cannot_be_read_is_quarantined_with_the_reason(
    replica: FakedReplica, url: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro_schemas, "SCHEMA_BYTES_MAX", 100)
    write(replica, b"x" * 101, "large.avsc")
    assert create(replica, avro_table(url.format(source=replica.directory / "source"))) is None
    assert replica.stored_quarantine() == {"orders": code}


def test_an_unmounted_source_is_no_failure_of_the_table(replica: FakedReplica) -> None:
    table = avro_table(f"file:{replica.directory}/source/missing.avsc")
    with pytest.raises(Exception, match="directory is missing or empty"):
        create(replica, table)
    assert replica.stored_quarantine() == {}


@pytest.mark.parametrize(
    ("url", "serde"),
    [
        ("https://registry/subjects/a/versions/1/schema", AVRO),
        ("none", AVRO),
        ("file:/anywhere/a.avsc", "org.apache.hadoop.hive.ql.io.orc.OrcSerde"),
    ],
)
def test_urls_that_mean_the_same_everywhere_or_that_nothing_reads_stay(
    replica: FakedReplica, url: str, serde: str
) -> None:
    made = create(replica, avro_table(url, serde))
    assert made is not None
    assert (made.parameters or {})[KEY] == url


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("/schemas/a.avsc", Location("hdfs", "nn:8020", "/schemas/a.avsc")),
        ("hdfs:///schemas/a.avsc", Location("hdfs", "nn:8020", "/schemas/a.avsc")),
        ("hdfs://other/a.avsc", Location("hdfs", "other", "/a.avsc")),
        ("file:///a.avsc", Location("file", "", "/a.avsc")),
        ("s3a://bucket/a.avsc", Location("s3a", "bucket", "/a.avsc")),
    ],
)
def test_a_url_without_a_host_is_of_the_file_system_of_the_table(url: str, location: Location) -> None:
    assert locate_schema(KEY, url, "hdfs://nn:8020/warehouse/shop.db/orders") == location
    assert locate_schema("comment", url, "hdfs://nn:8020/warehouse/shop.db/orders") is None


def test_webhdfs_is_a_file_system_of_the_source() -> None:
    with pytest.raises(Unsupported, match="WebHDFS"):
        locate_schema(KEY, "https://nn/webhdfs/v1/a?op=OPEN", None)
