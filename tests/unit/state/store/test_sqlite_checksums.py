"""A stored value that was changed is noticed; files of earlier builds are copied and get checksums."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from state.errors import FilesUnavailable, StateCorrupt
from state.store import Transaction
from state.store.sqlite import SqliteStore
from state.store.sqlite_file import APPLICATION_ID
from state.store.sqlite_reader import SqliteReader


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


def put(store: SqliteStore, **values: str) -> None:
    with store.transaction() as txn:
        for key, value in values.items():
            txn.put(key.encode(), value.encode())


def old_file(path: Path, version: int = 1) -> None:
    """Write the file as a build without checksums did."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
        file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        file.execute(f"PRAGMA user_version = {version}")
        file.execute("INSERT INTO entries VALUES (?, ?), (?, ?)", (b"a", b"1", b"b", b"2"))


def alter(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute(statement, values)


READS: list[Callable[[SqliteStore], object]] = [
    lambda store: store.get(b"position"),
    lambda store: list(store.scan(b"", None)),
    lambda store: list(store.scan(b"", None, reverse=True)),
]


def through_snapshot(store: SqliteStore) -> object:
    with store.snapshot() as snapshot:
        return snapshot.get(b"position")


def through_snapshot_scan(store: SqliteStore) -> object:
    with store.snapshot() as snapshot:
        return list(snapshot.scan(b"", None))


@pytest.mark.parametrize("read", [*READS, through_snapshot, through_snapshot_scan])
@pytest.mark.parametrize("snapshots", [False, True])
def test_a_value_with_a_flipped_bit_is_never_returned(
    path: Path, read: Callable[[SqliteStore], object], snapshots: bool
) -> None:
    with closing(SqliteStore(path, schema_version=1, snapshots=snapshots)) as store:
        put(store, position="1000")
    alter(path, "UPDATE entries SET value = ? WHERE key = ?", b"1008", b"position")  # one bit
    with (
        closing(SqliteStore(path, schema_version=1, snapshots=snapshots)) as store,
        pytest.raises(StateCorrupt, match="changed outside of Tideline"),
    ):
        read(store)


def test_a_value_under_another_key_is_never_returned(path: Path) -> None:
    with closing(SqliteStore(path, schema_version=1)) as store:
        put(store, position="1000", other="5")
    alter(path, "UPDATE entries SET key = ? WHERE key = ?", b"positioo", b"position")
    with closing(SqliteStore(path, schema_version=1)) as store, pytest.raises(StateCorrupt):
        store.get(b"positioo")


def test_a_file_of_an_earlier_build_is_copied_read_and_protected_from_the_next_write(path: Path) -> None:
    old_file(path)
    with closing(SqliteStore(path, schema_version=1)) as store:
        assert list(store.scan(b"", None)) == [(b"a", b"1"), (b"b", b"2")]
        put(store, a="3")
    alter(path, "UPDATE entries SET value = ? WHERE key = ?", b"4", b"a")
    with closing(SqliteStore(path, schema_version=1)) as store:
        assert store.get(b"b") == b"2"
        with pytest.raises(StateCorrupt):
            store.get(b"a")


def test_an_earlier_build_refuses_the_file_and_runs_again_on_the_copy(path: Path, tmp_path: Path) -> None:
    old_file(path, version=3)
    SqliteStore(path, schema_version=3).close()
    (copy,) = tmp_path.glob("*.bak")
    assert copy.name == "s.db.v0-3.bak"
    assert copy.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(path)) as upgraded, closing(sqlite3.connect(copy)) as kept:
        assert upgraded.execute("PRAGMA user_version").fetchone()[0] > 3  # "a newer version wrote the file"
        assert kept.execute("PRAGMA user_version").fetchone()[0] == 3
        assert kept.execute("SELECT * FROM entries").fetchall() == [(b"a", b"1"), (b"b", b"2")]


def test_every_migration_begins_with_a_copy(path: Path, tmp_path: Path) -> None:
    with closing(SqliteStore(path, schema_version=1)) as store:
        put(store, a="1")

    def change(txn: Transaction) -> None:
        txn.put(b"a", b"2")

    with closing(SqliteStore(path, schema_version=2, migrations={1: change})) as store:
        assert store.get(b"a") == b"2"
    assert [copy.name for copy in tmp_path.glob("*.bak")] == ["s.db.v1-1.bak"]
    (tmp_path / "s.db.v1-1.bak").rename(path)  # the downgrade
    with closing(SqliteStore(path, schema_version=1)) as store:
        assert store.get(b"a") == b"1"


def test_a_file_is_not_migrated_if_it_cannot_be_copied(path: Path, tmp_path: Path) -> None:
    old_file(path)
    (tmp_path / "s.db.v0-1.bak").mkdir()
    (tmp_path / "s.db.v0-1.bak" / "x").touch()
    with pytest.raises(FilesUnavailable, match="copy"):
        SqliteStore(path, schema_version=1)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone()[0] == 1


def test_a_failed_migration_leaves_the_file_as_it_was(path: Path) -> None:
    old_file(path)

    def fail(_: Transaction) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        SqliteStore(path, schema_version=2, migrations={1: fail})
    with closing(SqliteStore(path, schema_version=1)) as store:
        assert store.get(b"a") == b"1"


def test_a_reader_waits_for_the_migration_and_checks_values(path: Path) -> None:
    old_file(path)
    reader = SqliteReader(path, schema_version=1)
    with pytest.raises(StateCorrupt, match="not been migrated"), reader.snapshot():
        pass
    with closing(SqliteStore(path, schema_version=1, snapshots=True)) as store:
        put(store, position="1000")
        with reader.snapshot() as snapshot:
            assert snapshot.get(b"position") == b"1000"
    alter(path, "UPDATE entries SET value = ? WHERE key = ?", b"1008", b"position")
    with pytest.raises(StateCorrupt), reader.snapshot() as snapshot:
        snapshot.get(b"position")
    reader.close()
