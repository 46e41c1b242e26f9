"""Copies to and from a real object store.

``TIDELINE_TEST_S3`` names it, as ``http://access:secret@host:port`` (``make s3`` starts one); without it
there is nothing to run against.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pyarrow.fs
import pytest

from handlers.events import SourceFile
from handlers.files.copying.copies import Copier, CopyTask
from handlers.files.filesystems import FileSystems
from handlers.files.listing import list_plain_files, list_write
from handlers.files.paths import AllowedRoots, parse_location
from handlers.files.systems.arrow import BUFFERED_BYTES_MAX
from handlers.files.systems.schemes import open_file_systems
from state.errors import ConfigError, FileLost, FilesUnavailable, NotFound, TidelineError
from tests.builders.components.object_store import TestStore


pytestmark = pytest.mark.integration


@pytest.fixture
def options(store: TestStore) -> dict[str, object]:
    return store.arrow


@pytest.fixture
def systems(options: dict[str, object]) -> FileSystems:
    return open_file_systems({"s3a": options})


@pytest.fixture
def bucket(store: TestStore) -> str:
    return store.new_bucket()


@pytest.mark.parametrize("size_bytes", [0, 1000, BUFFERED_BYTES_MAX, BUFFERED_BYTES_MAX + 1])
def test_a_file_goes_to_the_store_and_back_and_again_without_writing(
    systems: FileSystems, bucket: str, tmp_path: Path, size_bytes: int
) -> None:
    content = os.urandom(size_bytes)
    (tmp_path / "bucket_00000_0").write_bytes(content)
    copier = Copier(systems, AllowedRoots.of([f"file:{tmp_path}", bucket]))
    there = CopyTask(SourceFile(f"file:{tmp_path}/bucket_00000_0"), f"{bucket}/t/delta_5_5/bucket_00000_0")
    assert not copier.copy(there).skipped
    assert copier.copy(there).skipped
    back = CopyTask(SourceFile(there.target_uri), f"file:{tmp_path}/back")
    assert copier.copy(back).size_bytes == size_bytes
    assert (tmp_path / "back").read_bytes() == content
    store = systems.of(parse_location(bucket))
    assert [entry.name for entry in store.list(parse_location(f"{bucket}/t/delta_5_5"))] == ["bucket_00000_0"]
    assert list_write(systems, f"{bucket}/t", 5).files == (SourceFile(there.target_uri, subdir="delta_5_5"),)
    assert list_plain_files(systems, f"{bucket}/t/delta_5_5") == (SourceFile(there.target_uri),)


def test_a_directory_without_objects_exists_once_it_is_made(systems: FileSystems, bucket: str) -> None:
    place = parse_location(f"{bucket}/t/n=2/dt=x%2Fy")
    store = systems.of(place)
    with pytest.raises(NotFound):
        store.list(place)
    store.make_directory(place)
    store.make_directory(place)
    assert list(store.list(place)) == []
    assert [entry.name for entry in store.list(place.parent)] == ["dt=x%2Fy"]


@pytest.mark.parametrize("size_bytes", [1000, BUFFERED_BYTES_MAX + 1])
def test_an_unpublished_object_leaves_no_trace(systems: FileSystems, bucket: str, size_bytes: int) -> None:
    place = parse_location(f"{bucket}/t/f")
    store = systems.of(place)
    with store.create(place, size_bytes) as writer:
        writer.write(memoryview(bytes(size_bytes)))
    with pytest.raises(NotFound):
        store.stat(place)
    with contextlib.suppress(
        NotFound
    ):  # the library leaves a directory marker behind the last object that it deletes
        assert list(store.list(place.parent)) == []


def test_a_missing_object_is_a_lost_file_and_a_missing_bucket_is_unavailable(
    systems: FileSystems, bucket: str, tmp_path: Path
) -> None:
    roots = AllowedRoots.of([f"file:{tmp_path}", bucket, "s3a://no-such-bucket-here"])
    copier = Copier(systems, roots)
    (tmp_path / "other").touch()
    copier.copy(CopyTask(SourceFile(f"file:{tmp_path}/other"), f"{bucket}/other"))
    for source, expected in (
        (f"{bucket}/absent", FileLost),
        ("s3a://no-such-bucket-here/f", FilesUnavailable),
    ):
        with pytest.raises(expected):
            copier.copy(CopyTask(SourceFile(source), f"file:{tmp_path}/f"))


def test_wrong_keys_make_the_store_unavailable(options: dict[str, object], bucket: str) -> None:
    systems = open_file_systems({"s3a": {**options, "secret_key": "wrong"}})
    place = parse_location(f"{bucket}/f")
    with pytest.raises(FilesUnavailable, match="denied access"):
        systems.of(place).stat(place)


def test_a_store_that_does_not_respond_is_unavailable(options: dict[str, object], bucket: str) -> None:
    dead = {
        **options,
        "endpoint_override": "127.0.0.1:1",
        "connect_timeout": 1,
        "retry_strategy": pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=1),
    }
    place = parse_location(f"{bucket}/f")
    with pytest.raises(FilesUnavailable):
        open_file_systems({"s3a": dead}).of(place).stat(place)


def test_writing_into_a_missing_bucket_is_an_error_of_the_tree(systems: FileSystems, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    copier = Copier(systems, AllowedRoots.of([f"file:{tmp_path}"]))
    with pytest.raises(TidelineError) as caught:
        copier.copy(CopyTask(SourceFile(f"file:{tmp_path}/f"), "s3a://no-such-bucket-here/f"))
    assert not isinstance(caught.value, ConfigError)
