"""Copies to, from and between real HDFS: a NameNode and a DataNode."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import hdfs_native
import pytest

from dev.stack.servers.hdfs import Hdfs
from handlers.events import SourceFile
from handlers.files.copying.checksums import parse_checksum
from handlers.files.copying.copies import Copier, CopyTask
from handlers.files.filesystems import FileSystems
from handlers.files.listing import list_plain_files, list_write
from handlers.files.paths import AllowedRoots, parse_location
from handlers.files.systems.schemes import open_file_systems
from state.errors import FileLost, FilesUnavailable, NotFound, Refused
from tests.builders.components.availability import start_or_skip
from tests.builders.components.hdfs_files import checksum_of, write


BLOCK_BYTES = 64 << 10


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    started = Hdfs(tmp_path_factory.mktemp("hdfs"))
    with start_or_skip("HDFS"):
        started.start()
    yield started
    started.stop()


@pytest.fixture
def root(hdfs: Hdfs) -> str:
    """A directory that no other test uses."""
    return f"{hdfs.uri}/{uuid.uuid4().hex}"


@pytest.fixture
def systems() -> FileSystems:
    return open_file_systems()


@pytest.mark.parametrize("size_bytes", [0, 1, 512, 100_000])
def test_a_file_goes_to_hdfs_and_back_and_again_without_writing(
    systems: FileSystems, root: str, tmp_path: Path, size_bytes: int
) -> None:
    content = os.urandom(size_bytes)
    (tmp_path / "bucket_00000_0").write_bytes(content)
    copier = Copier(systems, AllowedRoots.of([f"file:{tmp_path}", root]))
    there = CopyTask(SourceFile(f"file:{tmp_path}/bucket_00000_0"), f"{root}/t/delta_5_5/bucket_00000_0")
    assert not copier.copy(there).skipped
    assert copier.copy(there).skipped
    back = CopyTask(SourceFile(there.target_uri), f"file:{tmp_path}/back")
    assert copier.copy(back).size_bytes == size_bytes
    assert (tmp_path / "back").read_bytes() == content
    assert list_write(systems, f"{root}/t", 5).files == (SourceFile(there.target_uri, subdir="delta_5_5"),)
    assert list_plain_files(systems, f"{root}/t/delta_5_5") == (SourceFile(there.target_uri),)


@pytest.mark.parametrize("size_bytes", [0, 1, 513, BLOCK_BYTES, BLOCK_BYTES + 1, 5 * BLOCK_BYTES + 77])
def test_hdfs_own_checksum_proves_the_bytes_wherever_they_are(
    hdfs: Hdfs, systems: FileSystems, root: str, tmp_path: Path, size_bytes: int
) -> None:
    content, uri = os.urandom(size_bytes), f"{root}/f"
    write(hdfs, uri, content, BLOCK_BYTES)
    recorded = checksum_of(hdfs, uri)
    checksum = parse_checksum(parse_location(uri), recorded)
    assert checksum is not None
    digest = checksum.new_digest()
    digest.update(content)
    assert digest.proves(checksum.recorded)
    copier = Copier(systems, AllowedRoots.of([root]))
    task = CopyTask(SourceFile(uri, recorded, f"{root}/cmroot"), f"file:{tmp_path}/f")
    assert not copier.copy(task).skipped
    systems.of(parse_location(uri)).remove(parse_location(uri))
    assert copier.copy(task).skipped, "the copy on the target is recognised without the source"


def test_a_directory_is_made_with_its_parents_and_keeps_what_it_has(systems: FileSystems, root: str) -> None:
    place = parse_location(f"{root}/t/n=2/dt=x%2Fy")
    files = systems.of(place)
    files.make_directory(place)
    assert list(files.list(place)) == []
    with files.create(place.child("f"), 1) as writer:
        writer.write(b"x")
        writer.publish()
    files.make_directory(place)
    assert [entry.name for entry in files.list(place)] == ["f"]


def test_a_file_that_was_replaced_is_copied_from_the_change_manager_or_lost(
    hdfs: Hdfs, systems: FileSystems, root: str, tmp_path: Path
) -> None:
    uri = f"{root}/f"
    write(hdfs, uri, b"recorded")
    recorded = checksum_of(hdfs, uri)
    write(hdfs, uri, b"replaced")
    copier = Copier(systems, AllowedRoots.of([root]))
    task = CopyTask(SourceFile(uri, recorded, f"{root}/cmroot"), f"file:{tmp_path}/f")
    with pytest.raises(FilesUnavailable):
        copier.copy(task)  # the directory of the change manager is missing
    write(hdfs, f"{root}/cmroot/other", b"")
    with pytest.raises(FileLost):
        copier.copy(task)
    write(hdfs, f"{root}/cmroot/f_{recorded}", b"recorded")
    assert copier.copy(task).from_change_manager
    assert (tmp_path / "f").read_bytes() == b"recorded"


def test_a_file_is_replaced_in_one_step_and_an_unpublished_one_leaves_no_trace(
    systems: FileSystems, root: str
) -> None:
    place = parse_location(f"{root}/t/f")
    files = systems.of(place)
    for content in (b"first", b"second"):
        with files.create(place, len(content)) as writer:
            writer.write(memoryview(content))
            writer.publish()
    with files.create(place, 1) as writer:
        writer.write(memoryview(b"x"))
    assert [(entry.name, entry.size_bytes) for entry in files.list(place.parent)] == [("f", 6)]


def test_names_of_partitions_are_kept_as_hive_escapes_them(
    hdfs: Hdfs, systems: FileSystems, root: str
) -> None:
    write(hdfs, f"{root}/ds=a b%2Fc/f", b"1")
    (entry,) = systems.of(parse_location(root)).list(parse_location(root))
    assert entry.name == "ds=a b%2Fc"
    assert entry.is_directory


def test_missing_files_and_directories_are_told_apart_from_failures(
    hdfs: Hdfs, systems: FileSystems, root: str
) -> None:
    write(hdfs, f"{root}/f", b"1")
    files, missing, file = (
        systems.of(parse_location(root)),
        parse_location(f"{root}/none"),
        parse_location(f"{root}/f"),
    )
    for call in (files.stat, files.list, files.open):
        with pytest.raises(NotFound):
            call(missing)
    with pytest.raises(NotFound):
        files.list(file)
    for call in (files.stat, files.open):
        with pytest.raises(Refused):
            call(file.parent)
    files.remove(missing)


def test_missing_rights_and_a_stopped_name_node_are_failures_of_the_environment(
    hdfs: Hdfs, root: str, tmp_path: Path
) -> None:
    owner = hdfs_native.Client(hdfs.uri)
    path = parse_location(root).path
    owner.mkdirs(path, 0o755, create_parent=True)
    owner.set_owner(path, "hive")
    owner.set_permission("/", 0o755)
    os.environ["HADOOP_USER_NAME"] = "nobody"
    try:
        files = open_file_systems().of(parse_location(root))
        with pytest.raises(FilesUnavailable, match="denied access"):
            files.create(parse_location(f"{root}/f"), 1)
    finally:
        del os.environ["HADOOP_USER_NAME"]
    options = {"dfs.client.failover.max.attempts": 1}
    stopped = open_file_systems({"hdfs": options}).of(parse_location("hdfs://127.0.0.1:1/f"))
    with pytest.raises(FilesUnavailable, match="failed"):
        stopped.stat(parse_location("hdfs://127.0.0.1:1/f"))
