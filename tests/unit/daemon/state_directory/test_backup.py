"""A backup is consistent, is checked before it is restored, and leaves nothing of the former state in use."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path

import pytest

from daemon.process.loops.heartbeat import Pulse
from daemon.state_directory.backup import MANIFEST, read_backup, restore_backup, write_backup
from daemon.state_directory.directory import open_state, open_stores, write_atomically
from daemon.state_directory.keeper import StateKeeper
from state.errors import BadInput, InvalidRequest, StateCorrupt
from state.store.sqlite import SqliteStore


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "state"
    directory.mkdir()
    return directory


def put(store: SqliteStore, **values: str) -> None:
    with store.transaction() as txn:
        for key, value in values.items():
            txn.put(key.encode(), value.encode())


def values(state_dir: Path, name: str) -> dict[bytes, bytes]:
    with closing(open_state(state_dir, "replication", name)) as store:
        return dict(store.scan(b"", None))


def write_state(state_dir: Path, name: str, **entries: str) -> None:
    with closing(open_state(state_dir, "replication", name)) as store:
        put(store, **entries)


@pytest.mark.parametrize("snapshots", [False, True])
def test_a_backup_of_files_in_use_is_restored_as_of_its_moment(
    state_dir: Path, tmp_path: Path, snapshots: bool
) -> None:
    write_state(state_dir, "closed", a="1")
    with closing(open_state(state_dir, "replication", "shop", snapshots=snapshots)) as store:
        put(store, position="1")
        manifest = write_backup(state_dir, tmp_path / "backup")
        put(store, position="2")
    write_state(state_dir, "later", b="1")
    assert [file["name"] for file in manifest["files"]] == ["replication-closed.db", "replication-shop.db"]
    restored = restore_backup(tmp_path / "backup", state_dir)
    assert values(state_dir, "shop") == {b"position": b"1"}
    assert values(state_dir, "closed") == {b"a": b"1"}
    assert not (state_dir / "replication-later.db").exists()
    (replaced,) = state_dir.glob("replaced-*")
    assert restored["replaced"] == str(replaced)
    assert {"replication-later.db", "replication-shop.db"} <= {path.name for path in replaced.iterdir()}


@pytest.mark.parametrize("snapshots", [False, True])
def test_a_backup_has_no_part_of_a_transaction(state_dir: Path, tmp_path: Path, snapshots: bool) -> None:
    stop = threading.Event()
    with closing(open_state(state_dir, "replication", "shop", snapshots=snapshots)) as store:
        put(store, a="0", b="0")

        def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                put(store, a=str(number), b=str(number))

        writer = threading.Thread(target=write)
        writer.start()
        for number in range(5):
            write_backup(state_dir, tmp_path / str(number))
        stop.set()
        writer.join()
    for number in range(5):
        restore_backup(tmp_path / str(number), state_dir)
        found = values(state_dir, "shop")
        assert found[b"a"] == found[b"b"]


def test_a_backup_is_private_and_needs_an_empty_directory(state_dir: Path, tmp_path: Path) -> None:
    write_state(state_dir, "shop", a="1")
    write_backup(state_dir, tmp_path / "backup")
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "backup").rglob("*"))
    with pytest.raises(InvalidRequest):
        write_backup(state_dir, tmp_path / "backup")


def _cut(backup: Path) -> None:
    (backup / "replication-shop.db").write_bytes((backup / "replication-shop.db").read_bytes()[:-1])


def _flip(backup: Path) -> None:
    content = bytearray((backup / "replication-shop.db").read_bytes())
    content[-1] ^= 1
    (backup / "replication-shop.db").write_bytes(content)


def _lead_outside(backup: Path) -> None:
    manifest = json.loads((backup / MANIFEST).read_bytes())
    manifest["files"][0]["name"] = "../outside.db"
    write_atomically(backup / MANIFEST, manifest)


@pytest.mark.parametrize(
    "damage",
    [
        _cut,
        _flip,
        _lead_outside,
        lambda backup: (backup / "replication-shop.db").unlink(),
        lambda backup: (backup / MANIFEST).unlink(),
        lambda backup: (backup / MANIFEST).write_text("{}"),
        lambda backup: (backup / MANIFEST).write_text('{"format": 9, "files": []}'),
    ],
)
def test_a_backup_that_is_not_what_was_written_changes_nothing(
    damage: object, state_dir: Path, tmp_path: Path
) -> None:
    write_state(state_dir, "shop", a="1")
    write_backup(state_dir, tmp_path / "backup")
    write_state(state_dir, "shop", a="2")
    assert callable(damage)
    damage(tmp_path / "backup")
    with pytest.raises(BadInput):
        restore_backup(tmp_path / "backup", state_dir)
    assert values(state_dir, "shop") == {b"a": b"2"}
    assert list(state_dir.glob("replaced-*")) == []


def test_a_restoration_that_was_interrupted_can_be_repeated(state_dir: Path, tmp_path: Path) -> None:
    write_state(state_dir, "shop", a="1")
    write_backup(state_dir, tmp_path / "backup")
    assert len(read_backup(tmp_path / "backup")) == 1
    (state_dir / "replication-shop.db.restored").write_text("half")
    restore_backup(tmp_path / "backup", state_dir)
    restore_backup(tmp_path / "backup", state_dir)
    assert values(state_dir, "shop") == {b"a": b"1"}


class Beats(Pulse):
    """A heartbeat that never stops."""

    stopping = threading.Event()

    def following(self) -> None: ...

    def progress(self) -> None: ...


def test_a_damaged_value_is_found_before_it_is_used_and_stops_its_owner(state_dir: Path) -> None:
    write_state(state_dir, "shop", a="1", b="2")
    path = state_dir / "replication-shop.db"
    with closing(open_state(state_dir, "replication", "shop")) as store:
        store.execute("UPDATE entries SET value = ? WHERE key = ?", b"3", b"b")
        StateKeeper(state_dir).check(Beats())
        with pytest.raises(StateCorrupt):
            store.get(b"a")
        with pytest.raises(StateCorrupt):
            put(store, a="4")
    assert str(path) not in open_stores()


def test_sound_files_pass_the_check_and_closed_ones_are_left_out(state_dir: Path) -> None:
    open_state(state_dir, "relay", "lake").close()
    with closing(open_state(state_dir, "replication", "shop", snapshots=True)) as store:
        put(store, a="1")
        StateKeeper(state_dir).check(Beats())
        assert store.get(b"a") == b"1"
        assert list(open_stores()) == [str(state_dir / "replication-shop.db")]
