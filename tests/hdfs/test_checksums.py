"""Checksums that HDFS records for erasure-coded files and for files of two clusters that differ in block size
and kind of checksum."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import hdfs_native
import pytest

from dev.stack.servers.hdfs import Hdfs
from handlers.events import SourceFile
from handlers.files.copying.copies import Copier, CopyTask
from handlers.files.paths import AllowedRoots, parse_location
from handlers.files.systems.schemes import open_file_systems
from tests.builders.components.availability import start_or_skip
from tests.builders.components.hdfs_files import composite_crc_of, record, write


POLICY = "RS-3-2-1024k"
MIB = 1 << 20
FS_SHELL = "org.apache.hadoop.fs.FsShell"
EC_ADMIN = "org.apache.hadoop.hdfs.tools.ECAdmin"


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """HDFS whose directory ``/coded`` is erasure-coded, with one DataNode more than the data blocks of a
    group."""
    # Otherwise the NameNode avoids busy DataNodes, and may find too few of them.
    settings = {"dfs.namenode.redundancy.considerLoad": "false"}
    started = Hdfs(tmp_path_factory.mktemp("coded"), settings, data_nodes=4)
    with start_or_skip("HDFS with four DataNodes"):
        started.start()
        started.administer(EC_ADMIN, "-enablePolicy", "-policy", POLICY)
        hdfs_native.Client(started.uri).mkdirs("/coded", 0o755, create_parent=True)
        started.administer(EC_ADMIN, "-setPolicy", "-path", "/coded", "-policy", POLICY)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A second HDFS, with other blocks."""
    started = Hdfs(tmp_path_factory.mktemp("other"), {"dfs.blocksize": str(MIB)})
    with start_or_skip("a second HDFS"):
        started.start()
    yield started
    started.stop()


# Around a cell, around a stripe of three cells, and around a group of three blocks of two cells.
SIZES = [0, 1, 513, MIB - 1, MIB, MIB + 1, 3 * MIB, 3 * MIB + 700, 6 * MIB, 6 * MIB + 1, 14 * MIB + 77]


@pytest.mark.parametrize("size_bytes", SIZES)
def test_an_erasure_coded_file_is_copied_and_proved_by_the_checksum_that_hdfs_records(
    coded: Hdfs, tmp_path: Path, size_bytes: int
) -> None:
    root = f"{coded.uri}/coded/{uuid.uuid4().hex}"
    content = os.urandom(size_bytes)
    write(coded, f"{root}/f", content, 2 * MIB)
    write(coded, f"{root}/cmroot/other", b"")
    copier = Copier(open_file_systems(), AllowedRoots.of([root]))
    task = CopyTask(record(coded, f"{root}/f", f"{root}/cmroot"), f"file:{tmp_path}/f")
    copied = copier.copy(task)
    assert (copied.from_change_manager, copied.mismatches) == (False, 0)
    assert (tmp_path / "f").read_bytes() == content
    assert copier.copy(task).skipped


def test_an_erasure_coded_file_is_written_and_read_while_a_data_node_is_down(
    coded: Hdfs, tmp_path: Path
) -> None:
    uri = f"{coded.uri}/coded/{uuid.uuid4().hex}/f"
    content = os.urandom(5 * MIB + 3)
    (tmp_path / "f").write_bytes(content)
    copier = Copier(open_file_systems(), AllowedRoots.of([f"file:{tmp_path}", coded.uri]))
    copier.copy(CopyTask(SourceFile(f"file:{tmp_path}/f"), uri))
    recorded = record(coded, uri, f"{coded.uri}/cmroot")
    coded.data_nodes[0].kill()
    try:
        copier.copy(CopyTask(recorded, f"file:{tmp_path}/back"))
    finally:
        coded.data_nodes[0].start()
    assert (tmp_path / "back").read_bytes() == content


@pytest.mark.parametrize("size_bytes", [1, 64 << 10, 3 * MIB + 5])
def test_a_file_is_proved_between_clusters_with_other_blocks_and_another_kind_of_checksum(
    coded: Hdfs, other: Hdfs, size_bytes: int
) -> None:
    """There and back: MD5s of blocks of 512 KiB on one side, a composite CRC over blocks of 1 MiB on the
    other."""
    here, there = (f"{each.uri}/{uuid.uuid4().hex}" for each in (coded, other))
    content = os.urandom(size_bytes)
    write(coded, f"{here}/f", content, 512 << 10)
    copier = Copier(open_file_systems(), AllowedRoots.of([here, there]))
    out = CopyTask(record(coded, f"{here}/f", f"{here}/cmroot"), f"{there}/f")
    assert copier.copy(out).size_bytes == size_bytes
    assert copier.copy(out).skipped
    recorded = SourceFile(f"{there}/f", composite_crc_of(other, f"{there}/f"), f"{there}/cmroot")
    back = CopyTask(recorded, f"{here}/back")
    assert copier.copy(back).mismatches == 0
    assert copier.copy(back).skipped
    assert hdfs_native.Client(coded.uri).read(parse_location(f"{here}/back").path).read() == content


def test_the_composite_crc_of_an_erasure_coded_file_proves_it(coded: Hdfs, tmp_path: Path) -> None:
    root = f"{coded.uri}/coded/{uuid.uuid4().hex}"
    write(coded, f"{root}/f", os.urandom(7 * MIB + 3), 2 * MIB)
    recorded = SourceFile(f"{root}/f", composite_crc_of(coded, f"{root}/f"), f"{root}/cmroot")
    copier = Copier(open_file_systems(), AllowedRoots.of([root]))
    assert copier.copy(CopyTask(recorded, f"file:{tmp_path}/f")).mismatches == 0


def test_files_with_the_crcs_of_old_clusters_are_proved(other: Hdfs, tmp_path: Path) -> None:
    root = f"{other.uri}/{uuid.uuid4().hex}"
    write(other, f"{root}/cmroot/other", b"")
    copier = Copier(open_file_systems(), AllowedRoots.of([root]))
    for name in ("first", "second"):
        content = os.urandom(2 * MIB + 77)
        (tmp_path / name).write_bytes(content)
        other.administer(
            FS_SHELL, "-D", "dfs.checksum.type=CRC32", "-put", str(tmp_path / name), f"{root}/{name}"
        )
        task = CopyTask(record(other, f"{root}/{name}", f"{root}/cmroot"), f"file:{tmp_path}/copy_of_{name}")
        copied = copier.copy(task)
        assert (copied.from_change_manager, copied.mismatches, copied.skipped) == (False, 0, False)
        assert (tmp_path / f"copy_of_{name}").read_bytes() == content
        assert copier.copy(task).skipped
