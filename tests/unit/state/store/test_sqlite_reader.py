"""Reading the state file of another process: one moment, no lock that the writer waits for, and no log that
grows for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from state.errors import FilesUnavailable, StateCorrupt
from state.store import sqlite_reader, sqlite_snapshots
from state.store.sqlite import SqliteStore
from state.store.sqlite_reader import SqliteReader


WRITER = """
import sys
import time
from pathlib import Path
from state.store import sqlite_snapshots
from state.store.sqlite import SqliteStore

sqlite_snapshots.WAL_BYTES_MAX = 200_000
store = SqliteStore(sys.argv[1], schema_version=1, snapshots=True, durable=False)
end_s = time.monotonic() + 60
commits = new_starts = size = 0
while (commits < 1_000 or new_starts < 3) and time.monotonic() < end_s:
    with store.transaction() as txn:
        for key in (b"a", b"b"):
            txn.put(key, commits.to_bytes(8) + bytes(5_000))
    commits, before = commits + 1, size
    size = Path(sys.argv[1] + "-wal").stat().st_size
    new_starts += size < before
store.close()
print(new_starts)
"""
"""Writes until its log has started again three times, however the processes are scheduled."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def reader(path: Path) -> Iterator[SqliteReader]:
    with closing(SqliteReader(path, schema_version=1)) as opened:
        yield opened


def put(store: SqliteStore, key: bytes, value: bytes) -> None:
    with store.transaction() as txn:
        txn.put(key, value)


def read(reader: SqliteReader, key: bytes) -> bytes | None:
    with reader.snapshot() as snapshot:
        return snapshot.get(key)


def test_a_reader_sees_every_commit_and_a_snapshot_one_moment(path: Path, reader: SqliteReader) -> None:
    with closing(SqliteStore(path, schema_version=1, snapshots=True)) as store:
        put(store, b"a", b"1")
        with reader.snapshot() as before:
            put(store, b"a", b"2")
            assert read(reader, b"a") == b"2"
            assert before.get(b"a") == b"1"
    assert read(reader, b"a") == b"2", "the writer has ended"


def test_a_file_that_does_not_exist_yet_is_reported_and_read_once_it_does(
    path: Path, reader: SqliteReader
) -> None:
    with pytest.raises(FilesUnavailable):
        read(reader, b"a")
    with closing(SqliteStore(path, schema_version=1, snapshots=True)) as store:
        put(store, b"a", b"1")
        assert read(reader, b"a") == b"1"


def test_a_file_that_was_replaced_is_read_instead_of_the_old_one(
    path: Path, tmp_path: Path, reader: SqliteReader
) -> None:
    with closing(SqliteStore(path, schema_version=1, snapshots=True)) as store:
        put(store, b"a", b"old")
        assert read(reader, b"a") == b"old"
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"s.db{suffix}").unlink(missing_ok=True)
    with closing(SqliteStore(path, schema_version=1, snapshots=True)) as store:
        put(store, b"a", b"new")
        assert read(reader, b"a") == b"new"


@pytest.mark.parametrize("stored", [1, 3])
def test_content_of_another_version_is_refused(path: Path, stored: int) -> None:
    SqliteStore(path, schema_version=stored, snapshots=True).close()
    with closing(SqliteReader(path, schema_version=2)) as reader, pytest.raises(StateCorrupt):
        read(reader, b"a")


def test_a_reader_never_prevents_a_writer_from_starting(path: Path, reader: SqliteReader) -> None:
    SqliteStore(path, schema_version=1, snapshots=True).close()
    with reader.snapshot() as open_snapshot:
        with closing(SqliteStore(path, schema_version=1, snapshots=True)) as store:
            put(store, b"a", b"1")
        assert open_snapshot.get(b"a") is None


def test_the_writer_in_another_process_never_fails_and_its_log_starts_again_although_readers_never_pause(
    path: Path, reader: SqliteReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteStore(path, schema_version=1, snapshots=True).close()
    monkeypatch.setattr(sqlite_snapshots, "WAL_BYTES_MAX", 200_000)
    monkeypatch.setattr(sqlite_reader, "GATE_PAUSE_S", 0.05)
    command = [sys.executable, "-c", WRITER, str(path)]
    failures: list[BaseException] = []
    counts = [0, 0]

    def read_always(number: int) -> None:
        last = b""
        try:
            while writer.poll() is None:
                with reader.snapshot() as snapshot:
                    a, b = snapshot.get(b"a") or b"", snapshot.get(b"b") or b""
                assert a == b, "a snapshot is one moment"
                assert last <= a, "a later snapshot is not older"
                last, counts[number] = a, counts[number] + 1
        except BaseException as error:  # noqa: BLE001 - reported in the test's own thread
            failures.append(error)

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        threads = [threading.Thread(target=read_always, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
        assert writer.stdout is not None
        new_starts = int(writer.stdout.read())
    assert (failures, writer.returncode) == ([], 0)
    assert min(counts) > 20
    assert new_starts >= 3
