"""Snapshots of the state file: one moment, without waiting for the writer, and without a log that grows for
ever."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from state.errors import FilesUnavailable, StateLocked, TidelineError
from state.store import get_many, sqlite_checkpoints, sqlite_snapshots
from state.store.memory import MemoryStore
from state.store.sqlite import SqliteStore


KEYS = st.binary(min_size=1, max_size=2).map(lambda key: bytes(byte % 4 for byte in key))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "s.db", schema_version=1, snapshots=True)) as opened:
        yield opened


def put(store: SqliteStore, **entries: bytes) -> None:
    with store.transaction() as txn:
        for key, value in entries.items():
            txn.put(key.encode(), value)


def test_a_snapshot_shows_one_moment_whatever_is_committed_meanwhile(store: SqliteStore) -> None:
    put(store, a=b"1", b=b"1")
    with store.snapshot() as before:
        put(store, a=b"2", c=b"2")
        with store.snapshot() as after:
            assert dict(after.scan(b"", None)) == {b"a": b"2", b"b": b"1", b"c": b"2"}
        assert dict(before.scan(b"", None, reverse=True)) == {b"a": b"1", b"b": b"1"}
        assert list(before.scan_keys(b"a", b"b")) == [b"a"]
        assert (before.get(b"a"), before.get(b"c")) == (b"1", None)


STEPS = st.lists(st.tuples(KEYS, st.sampled_from(["put", "delete", "read", "read"])), max_size=40)


@given(steps=STEPS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_value_that_is_read_again_is_the_one_that_is_stored_now(
    store: SqliteStore, steps: list[tuple[bytes, str]]
) -> None:
    for number, (key, step) in enumerate(steps):
        if step == "read":
            with store.snapshot() as snapshot:
                assert snapshot.get(key) == snapshot.get(key) == store.get(key)
            continue
        with store.transaction() as txn:
            if step == "put":
                txn.put(key, b"%d" % number)
            else:
                txn.delete(key)


def test_a_snapshot_reads_again_what_has_not_changed_without_asking_the_file(store: SqliteStore) -> None:
    put(store, a=b"1", long=bytes(100_000))
    statements: list[str] = []
    for _ in range(2):
        with store.snapshot() as snapshot:
            snapshot._connection.handle.set_trace_callback(statements.append)  # type: ignore[attr-defined]  # noqa: SLF001
            assert snapshot.get(b"a") == b"1"
            assert snapshot.get(b"absent") is None
            assert snapshot.get(b"long") == bytes(100_000)
    read = [each for each in statements if each.startswith("SELECT")]
    assert len(read) == 3 + 1, "the long value is read each time"


def test_a_connection_in_use_is_not_used_again_after_the_pool_was_told_to_forget(store: SqliteStore) -> None:
    pool = store._snapshots  # noqa: SLF001
    assert pool is not None
    with store.snapshot() as during:
        pool.forget_idle()
    with store.snapshot() as after:
        assert after._connection is not during._connection  # type: ignore[attr-defined]  # noqa: SLF001


@given(stored=st.sets(KEYS, max_size=30), asked=st.lists(KEYS, max_size=30))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_keys_are_read_as_they_are_one_by_one(
    store: SqliteStore, stored: set[bytes], asked: list[bytes]
) -> None:
    with store.transaction() as txn:
        txn.delete_range(b"", None)
        for key in stored:
            txn.put(key, b"value of " + key)
    with store.snapshot() as snapshot:
        assert get_many(snapshot, asked) == [snapshot.get(key) for key in asked]


def test_many_keys_between_which_others_lie_are_all_found(store: SqliteStore) -> None:
    keys = [number.to_bytes(2) for number in range(3000)]
    with store.transaction() as txn:
        for key in keys:
            txn.put(key, key)
    with store.snapshot() as snapshot:
        assert get_many(snapshot, keys[::7]) == keys[::7]
        assert get_many(snapshot, keys[::-1]) == keys[::-1]


def test_a_snapshot_is_opened_and_read_while_a_transaction_is_open(store: SqliteStore) -> None:
    put(store, a=b"1")
    seen: list[bytes | None] = []

    def read() -> None:
        with store.snapshot() as snapshot:
            seen.append(snapshot.get(b"a"))

    with store.transaction() as txn:
        txn.put(b"a", b"2")
        reader = threading.Thread(target=read)
        reader.start()
        reader.join(5)
        assert seen == [b"1"]


def test_the_pause_is_called_for_every_page_and_may_end_the_reading(store: SqliteStore) -> None:
    put(store, **{f"{number:05}": b"" for number in range(2_000)})
    pages = []
    with store.snapshot(lambda: pages.append(1)) as snapshot:
        assert len(list(snapshot.scan_keys(b"", None))) == 2_000
    assert len(pages) == 4

    def refuse() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError), store.snapshot(refuse) as snapshot:
        list(snapshot.scan(b"", None))


def test_the_log_starts_again_although_readers_never_pause(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_snapshots, "WAL_BYTES_MAX", 200_000)
    stop, failures = threading.Event(), []

    def read() -> None:
        try:
            while not stop.is_set():
                with store.snapshot() as snapshot:
                    list(snapshot.scan_keys(b"", None))
        except BaseException as error:  # noqa: BLE001 - reported in the test's own thread
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    longest = 0
    for number in range(600):
        put(store, **{f"k{number % 7}": b"x" * 5_000})
        longest = max(longest, (tmp_path / "s.db-wal").stat().st_size)
    stop.set()
    for reader in readers:
        reader.join(10)
    assert not failures
    assert longest < 3_000_000, "600 commits of about two pages would take 5 MB"


def write_often(store: SqliteStore, path: Path, commits: int) -> int:
    """Write without pauses; return the greatest length of the log."""
    longest = 0
    for number in range(commits):
        put(store, **{f"k{number % 7}": b"x" * 5_000})
        longest = max(longest, Path(f"{path}-wal").stat().st_size)
    return longest


def test_the_log_starts_again_although_the_writer_never_pauses(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("DUE_BYTES", 50_000), ("RESTART_BYTES", 100_000), ("PAUSE_S", 0)):
        monkeypatch.setattr(sqlite_checkpoints, name, value)
    assert write_often(store, tmp_path / "s.db", 1500) < 6_000_000, "without it, the log would take 12 MB"


def test_a_snapshot_that_stays_open_lets_the_log_grow_and_the_next_commits_shorten_it(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_checkpoints, "DUE_BYTES", 50_000)
    monkeypatch.setattr(sqlite_checkpoints, "PAUSE_S", 0)
    put(store, k0=b"before")
    with store.snapshot() as opened:
        long = write_often(store, tmp_path / "s.db", 300)
        assert opened.get(b"k0") == b"before"
    monkeypatch.setattr(sqlite_snapshots, "WAL_BYTES_MAX", 200_000)
    commits = 0
    while (tmp_path / "s.db-wal").stat().st_size >= long:
        put(store, a=b"x" * 5_000)
        commits += 1
        assert commits < 100_000, "the log is not shortened"


def test_commits_succeed_although_checkpoints_fail(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = threading.Event()

    def refuse(path: str) -> None:
        tried.set()
        raise sqlite3.OperationalError(path)

    monkeypatch.setattr(sqlite_checkpoints, "DUE_BYTES", 50_000)
    monkeypatch.setattr(sqlite_checkpoints, "_connect", refuse)
    write_often(store, tmp_path / "s.db", 50)
    assert tried.wait(10)
    write_often(store, tmp_path / "s.db", 50)
    store.close()
    with closing(SqliteStore(tmp_path / "s.db", schema_version=1, snapshots=True)) as again:
        again.check()
        assert len(list(again.scan_keys(b"", None))) == 7


def test_other_processes_are_refused_until_the_file_is_closed(store: SqliteStore, tmp_path: Path) -> None:
    program = (
        "import sys; from state.store.sqlite import SqliteStore; "
        "SqliteStore(sys.argv[1], schema_version=1, snapshots=sys.argv[2] == 'yes')"
    )
    for snapshots in ("yes", "no"):
        command = [sys.executable, "-c", program, str(tmp_path / "s.db"), snapshots]
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "StateLocked" in refused.stderr
    with pytest.raises(StateLocked):
        SqliteStore(tmp_path / "s.db", schema_version=1, snapshots=True)
    store.close()
    SqliteStore(tmp_path / "s.db", schema_version=1, snapshots=True).close()


def test_a_snapshot_of_a_closed_store_is_refused_and_an_open_one_may_end(store: SqliteStore) -> None:
    put(store, a=b"1")
    with store.snapshot() as snapshot:
        store.close()
        assert snapshot.get(b"a") == b"1"
    with pytest.raises(FilesUnavailable), store.snapshot():
        pass


def test_a_store_without_snapshots_reads_what_is_committed_then() -> None:
    store, pages = MemoryStore(), []
    with store.transaction() as txn:
        txn.put(b"a", b"1")
    with store.snapshot(lambda: pages.append(1)) as snapshot:
        assert (snapshot.get(b"a"), list(snapshot.scan_keys(b"", None))) == (b"1", [b"a"])
        assert list(snapshot.scan(b"", None)) == [(b"a", b"1")]
    assert len(pages) == 2


def test_a_file_store_opened_without_snapshots_reads_what_is_committed_then(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "plain.db", schema_version=1)) as store:
        put(store, a=b"1")
        with store.snapshot() as snapshot:
            assert snapshot.get(b"a") == b"1"
            put(store, a=b"2")
            assert snapshot.get(b"a") == b"2"


def test_a_snapshot_remembers_a_limited_number_of_values(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_snapshots, "_REMEMBERED_MAX", 2)
    put(store, a=b"1", b=b"2", c=b"3")
    with store.snapshot() as snapshot:
        for _ in range(2):
            assert [snapshot.get(key) for key in (b"a", b"b", b"c", b"d")] == [b"1", b"2", b"3", None]
        assert len(snapshot._connection.values) <= 2  # type: ignore[attr-defined]  # noqa: SLF001


def test_no_more_connections_stay_open_than_the_pool_may_keep(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_snapshots, "_IDLE_MAX", 1)
    with store.snapshot() as one, store.snapshot() as two:
        connections = [each._connection for each in (one, two)]  # type: ignore[attr-defined]  # noqa: SLF001
    assert store._snapshots is not None  # noqa: SLF001
    (idle,) = store._snapshots._idle  # noqa: SLF001
    (other,) = [each for each in connections if each is not idle]
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        other.handle.execute("SELECT 1")


def test_a_snapshot_waits_for_a_closed_gate_for_a_limited_time(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_snapshots, "GATE_S", 0.01)
    put(store, a=b"1")
    pool = store._snapshots  # noqa: SLF001
    assert pool is not None
    assert pool.close_gate(0)
    with store.snapshot() as snapshot:
        assert snapshot.get(b"a") == b"1"
    with store.snapshot():
        assert not pool.close_gate(0), "a snapshot is open"


def test_the_log_of_a_file_without_one_has_no_bytes(tmp_path: Path) -> None:
    assert sqlite_snapshots.SnapshotPool(str(tmp_path / "absent.db")).wal_bytes() == 0


def test_a_file_that_cannot_be_opened_again_is_reported_and_no_snapshot_counts_as_open(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> sqlite3.Connection:
        error = sqlite3.OperationalError("unable to open database file " + path)
        error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
        raise error

    monkeypatch.setattr(sqlite_snapshots, "connect_read_only", refuse)
    with pytest.raises(FilesUnavailable), store.snapshot():
        pass
    assert store._snapshots is not None  # noqa: SLF001
    assert not store._snapshots.is_open()  # noqa: SLF001


def test_a_connection_that_fails_is_reported_and_not_used_again(store: SqliteStore) -> None:
    put(store, a=b"1")
    with pytest.raises(TidelineError), store.snapshot() as snapshot:  # noqa: PT012 - the second read fails
        snapshot._connection.handle.close()  # type: ignore[attr-defined]  # noqa: SLF001
        snapshot.get(b"a")
    with store.snapshot() as again:
        assert again.get(b"a") == b"1"


def test_the_log_is_not_shortened_while_a_snapshot_stays_open_beyond_the_gate(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("DUE_BYTES", 50_000), ("PAUSE_S", 0), ("GATE_S", 0.01)):
        monkeypatch.setattr(sqlite_checkpoints, name, value)
    monkeypatch.setattr(sqlite_snapshots, "WAL_BYTES_MAX", 200_000)
    put(store, k0=b"before")
    pool, tried = store._snapshots, threading.Event()  # noqa: SLF001
    assert pool is not None
    open_gate = pool.open_gate

    def opened_again() -> None:
        open_gate()
        tried.set()

    monkeypatch.setattr(pool, "open_gate", opened_again)
    with store.snapshot() as snapshot:
        write_often(store, tmp_path / "s.db", 300)
        assert tried.wait(10)
        assert snapshot.get(b"k0") == b"before"
    assert store.get(b"k0") != b"before"


def test_checkpoints_go_on_after_the_connection_for_them_could_not_be_opened(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_checkpoints, "DUE_BYTES", 50_000)
    failed, connect = threading.Event(), sqlite3.connect

    class Unreadable(sqlite3.Connection):
        def execute(self, *_: object) -> sqlite3.Cursor:
            failed.set()
            raise sqlite3.OperationalError("disk I/O error")

    def fail_once(*arguments: object, **options: object) -> sqlite3.Connection:
        kind = sqlite3.Connection if failed.is_set() else Unreadable
        return connect(*arguments, **options, factory=kind)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", fail_once)
    put(store, a=bytes(100_000))
    assert failed.wait(10)
    put(store, b=bytes(100_000))
    assert store.get(b"b") == bytes(100_000)
