"""Only the daemon's user can read what is in the state directory."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from daemon.state_directory.directory import open_state, write_atomically
from daemon.state_directory.private_files import narrow_files, report_wide_files


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """A state directory as an earlier build left it."""
    directory = tmp_path / "state"
    directory.mkdir(mode=0o700)
    for name in ("status.json", "requests/a.answer", "replication-shop.db"):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text("x")
        (directory / name).chmod(0o644)
    (directory / "requests").chmod(0o755)
    return directory


def modes(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in sorted(directory.rglob("*"))}


@pytest.mark.parametrize("snapshots", [False, True])
def test_new_files_are_private(tmp_path: Path, snapshots: bool) -> None:
    write_atomically(tmp_path / "status.json", {"a": 1})
    with closing(open_state(tmp_path, "replication", "shop", snapshots=snapshots)) as store:
        with store.transaction() as txn:
            txn.put(b"k", b"v")
        with store.snapshot() as snapshot:
            assert snapshot.get(b"k") == b"v"
        found = modes(tmp_path)
    assert {"status.json", "replication-shop.db", "replication-shop.db-wal"} <= set(found)
    assert set(found.values()) == {0o600}


def test_wide_files_of_an_earlier_build_are_narrowed(state_dir: Path) -> None:
    assert narrow_files(state_dir) == []
    assert modes(state_dir) == {
        "a.answer": 0o600,
        "replication-shop.db": 0o600,
        "requests": 0o700,
        "status.json": 0o600,
    }


def test_a_wide_directory_is_reported_and_stays(state_dir: Path) -> None:
    state_dir.chmod(0o755)
    with capture_logs() as logs:
        report_wide_files(state_dir)
    assert [(line["event"], line["paths"]) for line in logs] == [
        ("other users can reach the state directory", [str(state_dir)])
    ]
    assert state_dir.stat().st_mode & 0o777 == 0o755


def test_a_file_of_another_user_is_reported(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.chmod", refuse)
    assert len(narrow_files(state_dir)) == 4


def test_links_are_left_alone(state_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("x")
    (tmp_path / "other").chmod(0o644)
    (state_dir / "link").symlink_to(tmp_path / "other")
    assert narrow_files(state_dir) == []
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o644
