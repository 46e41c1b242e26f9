"""Storage on a local disk and in the object store that ``TIDELINE_TEST_S3`` names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from state.errors import AlreadyExists, FileLost, FilesUnavailable
from streaming.storage.hadoop import HadoopStorage, StorageByLocation, open_storage
from streaming.storage.local_disk import local_path
from streaming.storage.port import Storage, StorageEntry
from tests.builders.components.object_store import TestStore
from tests.builders.components.spark_sessions import copy_file


@pytest.fixture(params=["disk", "renames", "manifest", "object store"])
def way(request: pytest.FixtureRequest) -> str:
    """How files are published; on a disk, by Python's own calls and both ways by Hadoop's."""
    return str(request.param)


@pytest.fixture
def place(way: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A directory of the test that does not exist yet."""
    if way != "object store":
        return f"{tmp_path}/t"
    store: TestStore = request.getfixturevalue("store")
    return f"{store.new_bucket()}/t"


@pytest.fixture
def storage(way: str, place: str, spark: Any) -> Storage:
    del place  # where there is no store, it has skipped the test
    return open_storage(spark) if way == "disk" else HadoopStorage(spark, renames=way == "renames")


def test_a_record_has_the_content_written_last(storage: Storage, place: str) -> None:
    assert storage.read(f"{place}/a/r.json") is None
    assert storage.list(place) == ()
    for text in ("one", "zwei ü", ""):
        storage.write(f"{place}/a/r.json", text)
        assert storage.read(f"{place}/a/r.json") == text
    assert [found.name for found in storage.list(f"{place}/a")] == ["r.json"]
    assert storage.list(place) == [
        StorageEntry("a", is_directory=True, size_bytes=storage.list(place)[0].size_bytes)
    ]


def test_a_record_is_created_once(storage: Storage, place: str) -> None:
    assert storage.create(f"{place}/r.json", "first")
    assert not storage.create(f"{place}/r.json", "second")
    assert storage.read(f"{place}/r.json") == "first"


def test_a_move_can_be_repeated_even_between_copy_and_removal(
    way: str, storage: Storage, place: str, spark: Any
) -> None:
    old, new = f"{place}/.staging/b/part-0.orc", f"{place}/day=1/hh=2/v1/b-0.orc"
    storage.write(old, "rows")
    for _ in range(2):
        storage.move(old, new)
        assert (storage.read(old), storage.read(new)) == (None, "rows")
    if way in {"manifest", "object store"}:
        copy_file(spark, new, old)
        storage.move(old, new)
        assert (storage.read(old), storage.read(new)) == (None, "rows")
    storage.remove(new)
    with pytest.raises(FileLost):
        storage.move(old, new)


def test_a_copy_keeps_the_beginning_of_a_file_and_gets_another_end(storage: Storage, place: str) -> None:
    storage.write(f"{place}/a", "beginning and end")
    storage.write(f"{place}/b", "an older and longer attempt at the same copy")
    storage.copy_with_tail(f"{place}/a", f"{place}/b", 9, b" and more")
    assert storage.read(f"{place}/b") == "beginning and more"
    assert storage.read(f"{place}/a") == "beginning and end"
    with pytest.raises(FilesUnavailable):
        storage.copy_with_tail(f"{place}/nothing", f"{place}/c", 9, b"")
    assert storage.read(f"{place}/c") is None


def test_a_directory_is_removed_with_its_contents_only(storage: Storage, place: str) -> None:
    for name in ("v1/a", "v1/b/c", "v10/a"):
        storage.write(f"{place}/{name}", name)
    for _ in range(2):
        storage.remove(f"{place}/v1")
        assert [found.name for found in storage.list(place)] == ["v10"]
    assert storage.read(f"{place}/v10/a") == "v10/a"


@pytest.mark.parametrize("renames", [True, False])
def test_a_record_on_a_disk_is_written_atomically_wherever_the_table_is(
    spark: Any,
    tmp_path: Path,
    renames: bool,  # noqa: FBT001 - pytest's
) -> None:
    storage, record = open_storage(spark, renames=renames), tmp_path / "batches" / "1.plan.json"
    storage.write(str(record), "old")
    os.link(record, tmp_path / "who reads it still")
    storage.write(str(record), "new")
    assert record.read_text() == "new"
    assert (tmp_path / "who reads it still").read_text() == "old"


def test_a_file_moved_on_a_disk_takes_its_checksum_along(spark: Any, tmp_path: Path) -> None:
    hadoop, disk = HadoopStorage(spark), open_storage(spark)
    hadoop.write(f"{tmp_path}/old", "rows")
    disk.move(f"{tmp_path}/old", f"{tmp_path}/day/new")
    assert {each.name for each in (tmp_path / "day").iterdir()} == {"new", ".new.crc"}
    assert hadoop.read(f"{tmp_path}/day/new") == "rows"
    assert not list(tmp_path.glob(".old*"))


def test_hadoop_reads_a_record_that_was_replaced_on_a_disk(spark: Any, tmp_path: Path) -> None:
    hadoop, disk = HadoopStorage(spark), open_storage(spark)
    for text in ("by Hadoop", "by Tideline", "by Hadoop again"):
        (disk if text.endswith("Tideline") else hadoop).write(f"{tmp_path}/r.json", text)
        assert hadoop.read(f"{tmp_path}/r.json") == disk.read(f"{tmp_path}/r.json") == text
    disk.remove(f"{tmp_path}/r.json")
    assert list(tmp_path.iterdir()) == []


def test_a_move_on_a_disk_does_not_replace_a_file(spark: Any, tmp_path: Path) -> None:
    disk = open_storage(spark)
    for name in ("one", "other"):
        disk.write(f"{tmp_path}/{name}", name)
    with pytest.raises(AlreadyExists):
        disk.move(f"{tmp_path}/one", f"{tmp_path}/other")
    assert disk.read(f"{tmp_path}/other") == "other"


def test_a_copy_of_a_local_data_file_is_verified_and_gets_a_checksum(spark: Any, tmp_path: Path) -> None:
    disk = open_storage(spark)
    HadoopStorage(spark).write(f"{tmp_path}/a", "beginning and end")
    disk.copy_with_tail(f"{tmp_path}/a", f"{tmp_path}/b", 9, b" and more")
    assert (tmp_path / ".b.crc").exists()
    (tmp_path / "a").write_text("BEGINNING and end")
    with pytest.raises(FilesUnavailable, match="ChecksumException"):
        disk.copy_with_tail(f"{tmp_path}/a", f"{tmp_path}/c", 9, b" and more")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("file:///a%20b", "/a%20b"),
        ("/", "/"),
        ("hdfs://nn/a", None),
        ("s3a://bucket/a", None),
        ("file://host/a", None),
        ("a/b", None),
    ],
)
def test_a_path_is_local_without_a_scheme_or_with_that_of_files(path: str, found: str | None) -> None:
    assert local_path(path) == (None if found is None else Path(found))


def test_a_path_without_a_scheme_is_where_hadoops_default_file_system_is() -> None:
    class NoStorage:
        """Fails if it is used."""

    remote: Any = NoStorage()
    chosen = StorageByLocation(remote, remote, local_paths=False)
    assert not chosen.is_local("/a")
    assert chosen.is_local("file:///a")
