"""The state file: who may open it, which versions are accepted, and what happens with damage and a full
disk."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from state.errors import ConfigError, FilesUnavailable, StateCorrupt, StateLocked
from state.store import Store, Transaction, sqlite_transaction
from state.store.sqlite import SqliteStore
from tests.builders.stores.full_disk import full_disk


_opened: list[SqliteStore] = []


@pytest.fixture(autouse=True)
def _close_what_was_opened() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def open_store(path: Path, **options: object) -> SqliteStore:
    store = SqliteStore(path, **{"schema_version": 1, **options})  # type: ignore[arg-type]
    _opened.append(store)
    return store


def write(store: Store, **entries: bytes) -> None:
    with store.transaction() as transaction:
        for key, value in entries.items():
            transaction.put(key.encode(), value)


def content(store: Store) -> dict[bytes, bytes]:
    return dict(store.scan(b"", None))


def fill(store: Store, *, swallow: bool = False) -> None:
    """Write more than fits; with ``swallow``, the caller ignores the error."""
    with store.transaction() as transaction:
        transaction.put(b"first", b"1")
        for number in range(1000):
            try:
                transaction.put(b"%d" % number, b"x" * 1000)
            except FilesUnavailable:
                if not swallow:
                    raise


def set_name(transaction: Transaction) -> None:
    transaction.put(b"name", (transaction.get(b"nom") or b"") + b"!")
    transaction.delete(b"nom")


def test_a_closed_store_opens_again_with_everything_in_it(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    write(store, a=b"1")
    store.close()
    store.close()
    assert content(open_store(tmp_path / "state.db")) == {b"a": b"1"}


def test_a_key_that_is_written_often_in_one_transaction_is_written_to_the_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "state.db")
    rows: list[tuple[bytes, ...]] = []
    monkeypatch.setattr(SqliteStore, "execute_each", lambda _, __, each: rows.extend(each))
    with store.transaction() as transaction:
        for number in range(100):
            transaction.put(b"end", str(number).encode())
            assert transaction.get(b"end") == str(number).encode()
    assert [row[:2] for row in rows] == [(b"end", b"99")]


def test_a_transaction_keeps_a_limited_number_of_writes_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_transaction, "WAITING_KEYS_MAX", 3)
    store = open_store(tmp_path / "state.db")
    steps: list[int] = []
    execute_each = SqliteStore.execute_each

    def counting(self: SqliteStore, statement: str, rows: Sequence[tuple[bytes, ...]]) -> None:
        steps.append(len(rows))
        execute_each(self, statement, rows)

    monkeypatch.setattr(SqliteStore, "execute_each", counting)
    write(store, a=b"1", b=b"2", c=b"3", d=b"4")
    assert steps == [3, 1]
    assert content(store) == {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4"}


def test_a_second_open_of_the_same_file_is_refused(tmp_path: Path) -> None:
    with_lock = open_store(tmp_path / "state.db")
    with pytest.raises(StateLocked) as refusal:
        open_store(tmp_path / "state.db")
    assert refusal.value.context["path"] == str(tmp_path / "state.db")
    with_lock.close()
    open_store(tmp_path / "state.db").close()


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    program = (
        "import sys; from state.store.sqlite import SqliteStore; SqliteStore(sys.argv[1], schema_version=1);"
        "print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "state.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(StateLocked):
            open_store(tmp_path / "state.db")
        holder.kill()
        holder.wait()
    open_store(tmp_path / "state.db").close()


def test_a_file_of_a_newer_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    open_store(tmp_path / "state.db", schema_version=3).close()
    with pytest.raises(StateCorrupt, match="newer") as refusal:
        open_store(tmp_path / "state.db", schema_version=2)
    assert refusal.value.context["stored_version"] == 3
    assert refusal.value.context["supported_version"] == 2
    assert refusal.value.hint
    open_store(tmp_path / "state.db", schema_version=3).close()


def test_an_older_file_is_migrated_through_every_version(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db", schema_version=1)
    write(store, nom=b"x")
    store.close()
    migrations = {1: set_name, 2: lambda transaction: transaction.put(b"second", b"")}
    migrated = open_store(tmp_path / "state.db", schema_version=3, migrations=migrations)
    assert content(migrated) == {b"name": b"x!", b"second": b""}
    migrated.close()
    assert content(open_store(tmp_path / "state.db", schema_version=3)) == {b"name": b"x!", b"second": b""}


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    def fail(transaction: Transaction) -> None:
        transaction.put(b"half", b"")
        raise ZeroDivisionError

    store = open_store(tmp_path / "state.db", schema_version=1)
    write(store, nom=b"x")
    store.close()
    with pytest.raises(ZeroDivisionError):
        open_store(tmp_path / "state.db", schema_version=3, migrations={1: set_name, 2: fail})
    assert content(open_store(tmp_path / "state.db", schema_version=1)) == {b"nom": b"x"}


def test_a_file_too_old_for_the_migrations_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path / "state.db", schema_version=1).close()
    with pytest.raises(StateCorrupt, match="too old"):
        open_store(tmp_path / "state.db", schema_version=3, migrations={2: set_name})


@pytest.mark.parametrize("text", [b"hello" * 1000, b"SQLite format 3\x00" + b"\xff" * 5000, b"\x00" * 4096])
def test_a_file_that_is_not_a_database_is_refused_with_its_path(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(text)
    with pytest.raises(StateCorrupt) as refusal:
        open_store(path)
    assert refusal.value.context["path"] == str(path)
    assert path.read_bytes() == text


def test_a_database_of_another_program_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    with pytest.raises(StateCorrupt, match="another program"):
        open_store(path)


def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    (tmp_path / "state.db").touch()
    write(open_store(tmp_path / "state.db"), a=b"1")


@pytest.mark.parametrize("page", [1, 2, 5])
def test_damage_is_detected_and_never_returned_as_data(tmp_path: Path, page: int) -> None:
    path = tmp_path / "state.db"
    store = open_store(path)
    write(store, **{f"key{number:05d}": b"v" * 500 for number in range(500)})
    store.close()
    damaged = bytearray(path.read_bytes())
    damaged[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    path.write_bytes(damaged)
    with pytest.raises(StateCorrupt) as refusal:
        open_store(path).check()
    assert refusal.value.context["path"] == str(path)


def test_a_missing_directory_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        open_store(tmp_path / "missing" / "state.db")
    assert "missing" in str(refusal.value)


def test_a_missing_directory_of_a_store_with_snapshots_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be opened for writing") as refusal:
        open_store(tmp_path / "missing" / "state.db", snapshots=True)
    assert refusal.value.hint


def test_a_store_with_snapshots_recovers_and_its_readers_see_the_repaired_file(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db", snapshots=True)
    write(store, before=b"1")
    with store.snapshot() as snapshot:
        assert snapshot.get(b"before") == b"1"
    with full_disk(), pytest.raises(FilesUnavailable):
        fill(store)
    store.recover()
    write(store, after=b"2")
    with store.snapshot() as snapshot:
        assert dict(snapshot.scan(b"", None)) == {b"before": b"1", b"after": b"2"}


def test_a_full_disk_leaves_no_partial_write_and_the_store_can_be_opened_again(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    write(store, before=b"1")
    store._connection.execute("PRAGMA max_page_count = 10")
    with pytest.raises(FilesUnavailable, match="full"):
        fill(store)
    with pytest.raises(FilesUnavailable, match="full"):
        store.get(b"before")
    store.close()
    again = open_store(tmp_path / "state.db")
    assert content(again) == {b"before": b"1"}
    write(again, after=b"2")


def test_a_store_on_a_full_disk_recovers_once_there_is_space(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    write(store, before=b"1")
    with full_disk(), pytest.raises(FilesUnavailable):
        fill(store)
    with pytest.raises(FilesUnavailable):
        store.get(b"before")
    store.recover()
    assert content(store) == {b"before": b"1"}
    write(store, after=b"2")
    assert content(store) == {b"before": b"1", b"after": b"2"}


def test_a_store_recovers_only_when_the_cause_has_passed(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    with full_disk():
        with pytest.raises(FilesUnavailable):
            fill(store)
        shutil.move(tmp_path / "state.db", tmp_path / "elsewhere")
        (tmp_path / "state.db").mkdir()
        with pytest.raises(FilesUnavailable, match="can no longer be written"):
            store.recover()
    (tmp_path / "state.db").rmdir()
    shutil.move(tmp_path / "elsewhere", tmp_path / "state.db")
    store.recover()
    assert content(store) == {}


def test_a_closed_store_does_not_recover(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    store.close()
    with pytest.raises(FilesUnavailable, match="closed"):
        store.recover()


def test_an_error_swallowed_inside_the_block_still_fails_the_transaction(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    store._connection.execute("PRAGMA max_page_count = 10")
    with pytest.raises(FilesUnavailable, match="full"):
        fill(store, swallow=True)
    store.close()
    assert content(open_store(tmp_path / "state.db")) == {}


def test_a_closed_store_refuses_calls_with_a_reason(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    store.close()
    with pytest.raises(FilesUnavailable, match="closed"):
        store.get(b"k")


@pytest.mark.parametrize(("durable", "level"), [(True, 2), (False, 1)])
def test_durable_means_that_every_commit_is_synced(tmp_path: Path, durable: bool, level: int) -> None:
    store = open_store(tmp_path / "state.db", durable=durable)
    assert store._connection.execute("PRAGMA synchronous").fetchone() == (level,)
    assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
