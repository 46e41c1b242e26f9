"""Files as a real Hive records them: checksums, names in the change manager, directories of a write."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.decoding.fields import parse_source_files
from handlers.decoding.messages import Limits
from handlers.events import SourceFile
from handlers.files.copying.copies import Copier, build_copy_task
from handlers.files.filesystems import FileSystems
from handlers.files.listing import list_write
from handlers.files.paths import AllowedRoots, parse_location
from handlers.files.systems.schemes import open_file_systems
from handlers.metastore.client import Metastore


@pytest.fixture
def metastore(source: ClusterEndpoints) -> Iterator[Metastore]:
    client = Metastore([source.metastore])
    yield client
    client.close()


@pytest.fixture
def systems() -> FileSystems:
    return open_file_systems()


@pytest.fixture
def copier(source: ClusterEndpoints, systems: FileSystems) -> Copier:
    return Copier(systems, AllowedRoots.of([source.warehouse, source.cmroot]))


@pytest.fixture
def tracked(source_sql: Session, database: str) -> Session:
    """A session in a database whose dropped files the change manager keeps."""
    source_sql.run(f"CREATE DATABASE {database} WITH DBPROPERTIES ('repl.source.for' = 'files')")
    source_sql.run(f"USE {database}")
    return source_sql


def written(metastore: Metastore, after: int, database: str) -> list[tuple[int, str, tuple[SourceFile, ...]]]:
    """Return (write id, partition, files) of every write event of ``database`` after event ``after``."""
    found = []
    for event in metastore.next_events(after, 10_000):
        if event.eventType == "COMMIT_TXN":
            for info in metastore.write_events(_txn_id(event.message)):
                if info.database == database:
                    files = parse_source_files(info.files.split("]"), Limits())
                    found.append((info.writeId, info.partition or "", files))
    return found


def _txn_id(message: str) -> int:
    return int(json.loads(gzip.decompress(base64.b64decode(message)), strict=False)["txnid"])


def test_hives_checksum_verifies_the_copy_and_names_that_of_the_change_manager(
    metastore: Metastore, tracked: Session, database: str, copier: Copier, tmp_path: Path
) -> None:
    before = metastore.current_event_id()
    tracked.run("CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ('transactional' = 'true')")
    tracked.run("INSERT INTO t VALUES (1), (2)")
    ((_, _, files),) = written(metastore, before, database)
    tasks = [build_copy_task(file, f"file:{tmp_path}/first") for file in files]
    assert tasks
    contents = [Path(parse_location(file.uri).path).read_bytes() for file in files]
    assert [copier.copy(task).from_change_manager for task in tasks] == [False] * len(tasks)
    assert [copier.copy(task).skipped for task in tasks] == [True] * len(tasks)
    assert [Path(parse_location(task.target_uri).path).read_bytes() for task in tasks] == contents

    tracked.run("DROP TABLE t")
    assert not any(Path(parse_location(file.uri).path).exists() for file in files)
    again = [build_copy_task(file, f"file:{tmp_path}/second") for file in files]
    assert [copier.copy(task).from_change_manager for task in again] == [True] * len(again)
    assert [Path(parse_location(task.target_uri).path).read_bytes() for task in again] == contents


def test_partitions_that_hives_write_events_forget_are_found_by_their_directories(
    metastore: Metastore,
    tracked: Session,
    database: str,
    systems: FileSystems,
    copier: Copier,
    tmp_path: Path,
) -> None:
    tracked.run(
        "CREATE TABLE p (id INT) PARTITIONED BY (d STRING) STORED AS ORC TBLPROPERTIES ('transactional' = "
        "'true')"
    )
    tracked.run("CREATE TABLE feed (id INT) STORED AS ORC TBLPROPERTIES ('transactional' = 'true')")
    tracked.run("INSERT INTO feed VALUES (1), (2)")
    before = metastore.current_event_id()
    tracked.run(
        "FROM feed INSERT INTO p PARTITION (d = 'a:1') SELECT id INSERT INTO p PARTITION (d = 'b') SELECT id"
    )
    ((write_id, named, files),) = written(metastore, before, database)
    root = parse_location(files[0].uri).path.partition(f"/{named}/")[0]
    partitions = sorted(child for child in Path(root).iterdir() if child.is_dir())
    assert len(partitions) == 2
    found = set()
    for partition in partitions:
        listed = list_write(systems, f"file:{partition}", write_id).files
        assert listed
        for file in listed:
            found.add((file.uri, file.subdir))
            task = build_copy_task(file, f"file:{tmp_path}/{partition.name}")
            assert copier.copy(task).size_bytes > 0
            assert (
                Path(parse_location(task.target_uri).path).read_bytes()
                == Path(parse_location(file.uri).path).read_bytes()
            )
    assert {(file.uri, file.subdir) for file in files} < found
