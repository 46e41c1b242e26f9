"""Encryption zones of a real HDFS with Hadoop's key server: files, and a replica whose source has its
warehouse in a zone."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import hdfs_native
import pytest

from dev.stack import cli, preflight
from dev.stack.cluster import Stack
from dev.stack.servers.hdfs import Hdfs
from dev.stack.servers.key_server import KeyServer, create_key, create_zone, list_client_jars
from handlers.events import FilesWritten, SourceFile
from handlers.files.copying.copies import Copier, CopyTask
from handlers.files.paths import AllowedRoots, parse_location
from handlers.files.systems.encryption_zones import PROVIDER
from handlers.files.systems.hadoop_settings import CONF_DIR
from handlers.files.systems.hdfs import HdfsFiles
from handlers.files.systems.schemes import open_file_systems
from state.errors import FileLost, FilesUnavailable
from tests.builders.components.availability import start_or_skip
from tests.builders.components.hdfs_files import checksum_of, record
from tests.builders.components.hdfs_files import write as write_file
from tests.builders.replication.replica import build_replica
from tests.builders.replication.small_workload import ACID
from tests.builders.replication.verification import verify
from tests.builders.replication.whole_workload import find_differences, write_workload
from tests.hdfs.conftest import on_hdfs


FS_SHELL: Final = "org.apache.hadoop.fs.FsShell"
CONTENT: Final = os.urandom(300_000)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyServer]:
    server = KeyServer(tmp_path_factory.mktemp("keys"))
    with start_or_skip("a key server"):
        server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def hdfs(keys: KeyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """HDFS with zones at ``/zone`` and at the warehouse of the source; clients here find its key server."""
    started = Hdfs(tmp_path_factory.mktemp("encrypted"), keys.settings)
    with start_or_skip("HDFS"):
        started.start()
        create_key(started)
        for path in ("/zone", "/source/warehouse", "/source/external"):
            hdfs_native.Client(started.uri).mkdirs(path, 0o777, create_parent=True)
            create_zone(started, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONF_DIR, str(started.name_node.conf))
        yield started
    started.stop()


def write(hdfs: Hdfs, place: str, content: bytes = CONTENT) -> SourceFile:
    """Write a file below a directory of HDFS, and return its entry in an event."""
    uri = f"{hdfs.uri}{place}/f"
    write_file(hdfs, uri, content, 64 << 10)
    hdfs_native.Client(hdfs.uri).mkdirs("/cmroot", 0o777, create_parent=True)
    return record(hdfs, uri, f"{hdfs.uri}/cmroot")


def copier_of(hdfs: Hdfs, options: dict[str, object] | None = None) -> Copier:
    systems = open_file_systems({"hdfs": options or {}})
    return Copier(systems, AllowedRoots.of([f"{hdfs.uri}/"]))


def test_an_encrypted_file_is_copied_although_hdfs_records_the_checksum_of_its_stored_bytes(
    hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, encrypted = write(hdfs, "/plain"), write(hdfs, f"/zone/{uuid.uuid4().hex}")
    assert plain.checksum != encrypted.checksum
    copier = copier_of(hdfs)
    task = CopyTask(encrypted, f"file:{tmp_path}/f")
    copied = copier.copy(task)
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert (copied.skipped, copied.mismatches) == (False, 0)
    assert copier.copy(task).skipped
    forged = SourceFile(plain.uri, encrypted.checksum, plain.cm_root)
    with pytest.raises(FileLost):
        copier.copy(CopyTask(forged, f"file:{tmp_path}/forged"))
    assert not (tmp_path / "forged").exists(), "outside of a zone, the checksum counts"
    monkeypatch.setattr(HdfsFiles, "is_encrypted", lambda *_: False)
    with pytest.raises(FileLost):
        copier.copy(CopyTask(encrypted, f"file:{tmp_path}/lost"))


def test_an_encrypted_file_that_was_removed_comes_from_the_change_manager(hdfs: Hdfs, tmp_path: Path) -> None:
    client, place = hdfs_native.Client(hdfs.uri), f"/zone/{uuid.uuid4().hex}"
    source = write(hdfs, place)
    client.mkdirs(f"{place}/cm", 0o777, create_parent=True)
    source = SourceFile(source.uri, source.checksum, f"{hdfs.uri}{place}/cm")
    client.rename(f"{place}/f", f"{place}/cm/f_{source.checksum}")
    assert copier_of(hdfs).copy(CopyTask(source, f"file:{tmp_path}/f")).from_change_manager
    assert (tmp_path / "f").read_bytes() == CONTENT


def test_a_copy_into_a_zone_is_encrypted_and_recognised(hdfs: Hdfs, tmp_path: Path) -> None:
    place = f"/zone/{uuid.uuid4().hex}"
    source = write(hdfs, "/plain")
    copier = copier_of(hdfs)
    task = CopyTask(source, f"{hdfs.uri}{place}/f")
    copier.copy(task)
    hdfs.administer(FS_SHELL, "-get", f"{place}/f", str(tmp_path / "f"))
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert checksum_of(hdfs, f"{hdfs.uri}{place}/f") != source.checksum
    assert copier.copy(task).skipped


def test_without_key_server_nothing_is_copied(
    hdfs: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(hdfs, f"/zone/{uuid.uuid4().hex}")
    monkeypatch.delenv(CONF_DIR)
    for task in (CopyTask(source, f"file:{tmp_path}/f"), CopyTask(write_local(tmp_path), source.uri + "2")):
        with pytest.raises(FilesUnavailable, match="no key server is configured") as refused:
            Copier(open_file_systems(), AllowedRoots.of([f"{hdfs.uri}/", f"file:{tmp_path}"])).copy(task)
        assert PROVIDER in str(refused.value)
    assert not (tmp_path / "f").exists()
    names = [
        each.path for each in hdfs_native.Client(hdfs.uri).list_status(parse_location(source.uri).parent.path)
    ]
    assert names == [parse_location(source.uri).path], "no hidden file is left"


def write_local(directory: Path) -> SourceFile:
    (directory / "local").write_bytes(CONTENT)
    return SourceFile(f"file:{directory}/local", None, None)


def test_the_replica_of_a_warehouse_in_a_zone_equals_its_source(
    hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("clusters")
    preflight.check_all(directory)
    cli.fetch_all()
    jars = list_client_jars()
    running = Stack(
        directory,
        replace(on_hdfs(hdfs.uri, "source"), jars=jars),
        replace(on_hdfs(hdfs.uri, "target"), jars=jars),
    )
    with start_or_skip("two clusters on HDFS"):
        running.start(engines=True)
    try:
        replica = build_replica(
            running.source.metastore.uri,
            running.target.metastore.uri,
            db=f"db_{uuid.uuid4().hex[:12]}",
            roots=[f"{hdfs.uri}/source"],
        )
        with running.source.sql() as source_sql, running.target.sql() as target_sql:
            write_workload(source_sql, replica.policy.source_db)
            replica.follow()
            assert replica.quarantined() == {}
            assert find_differences(replica, source_sql, target_sql) == []
            after, db = replica.projection.position.event_id, replica.policy.source_db
            source_sql.run(f"create table {db}.gone (id int) {ACID}")
            source_sql.run(f"insert into {db}.gone values (1), (2)")
            upto = replica.source.current_event_id()
            source_sql.run(f"drop table {db}.gone")
            files = [f for e in replica.events(after) if isinstance(e, FilesWritten) for f in e.files]
            assert {file.cm_root for file in files} == {f"{hdfs.uri}/source/warehouse/.cmroot"}
            kept = replica.context.copies.counters().from_change_manager
            replica.follow(upto=upto)
            assert target_sql.rows(f"select id from {db}_r.gone order by id") == [("1",), ("2",)]
            assert replica.context.copies.counters().from_change_manager == kept + 1
            replica.follow()
        results = verify(replica, checksums=True)
        assert {name: result.outcome.value for name, result in results.items()} == dict.fromkeys(
            results, "equal"
        )
        counters = replica.context.copies.counters()
        assert counters.files > 0
        assert counters.mismatches == 0
        replica.projection.close()
    finally:
        running.stop()


def test_a_key_server_that_is_down_makes_a_copy_wait(hdfs: Hdfs, keys: KeyServer, tmp_path: Path) -> None:
    source = write(hdfs, f"/zone/{uuid.uuid4().hex}")
    task, copier = CopyTask(source, f"file:{tmp_path}/f"), copier_of(hdfs)
    keys.process.kill()
    with pytest.raises(FilesUnavailable, match="key server of the encryption zone failed"):
        copier.copy(task)
    keys.start()
    copier.copy(task)
    assert (tmp_path / "f").read_bytes() == CONTENT
