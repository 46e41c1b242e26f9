"""Storage on a local disk: interrupted calls, and file systems that lack something. What it shares with
Hadoop is in integration tests."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from state.errors import AlreadyExists, FilesUnavailable
from streaming.storage.local_disk import LocalDisk


class Killed(BaseException):
    """Stands for the death of the process."""


@pytest.fixture
def disk() -> LocalDisk:
    return LocalDisk()


def kill_at(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Die before the ``call``th change of a directory; changes after it, such as cleaning up, do not take
    place."""
    made = 0

    def count(change: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            nonlocal made
            made += 1
            if made >= call:
                raise Killed
            return change(*given, **named)

        return counted

    for name in ("link", "replace", "unlink"):
        monkeypatch.setattr(f"os.{name}", count(getattr(os, name)))


def checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


@pytest.mark.parametrize("call", range(1, 6))
def test_a_killed_move_is_completed_by_a_repetition_and_no_file_has_anothers_checksum(
    disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    old, new = tmp_path / "old", tmp_path / "day" / "new"
    old.write_text("rows")
    checksum(old).write_text("of the rows")
    with monkeypatch.context() as patched:
        kill_at(patched, call)
        try:
            disk.move(str(old), str(new))
        except Killed:
            assert [path.read_text() for path in (old, new) if path.exists()] == ["rows"]
    disk.move(str(old), str(new))
    assert (new.read_text(), checksum(new).read_text()) == ("rows", "of the rows")
    assert [path.name for path in tmp_path.iterdir()] == ["day"]


@pytest.mark.parametrize("call", range(1, 5))
def test_a_killed_write_leaves_the_old_record_or_the_new_one_without_an_old_checksum(
    disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    record = tmp_path / "r.json"
    record.write_text("old")
    checksum(record).write_text("of the old")
    with monkeypatch.context() as patched:
        kill_at(patched, call)
        try:
            disk.write(str(record), "new")
        except Killed:
            assert record.read_text() == "old" or not checksum(record).exists()
    disk.write(str(record), "newer")
    assert disk.read(str(record)) == "newer"
    assert not checksum(record).exists()


@pytest.mark.parametrize("call", range(1, 4))
def test_a_killed_creation_leaves_no_file_or_all_of_it(
    disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    record = tmp_path / "stream.json"
    with monkeypatch.context() as patched:
        kill_at(patched, call)
        try:
            disk.create(str(record), "first")
        except Killed:
            assert not record.exists() or record.read_text() == "first"
    assert disk.create(str(record), "first") is not (call > 2)
    assert disk.read(str(record)) == "first"


def test_a_removed_file_leaves_no_checksum_that_a_new_file_would_have(
    disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "r.json"
    record.write_text("old")
    checksum(record).write_text("of the old")
    with monkeypatch.context() as patched:
        kill_at(patched, 2)
        with pytest.raises(Killed):
            disk.remove(str(record))
    assert (record.exists(), checksum(record).exists()) == (True, False)


def test_where_there_are_no_hard_links_a_file_is_created_once_as_well(
    disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr("os.link", refuse)
    assert disk.create(f"{tmp_path}/r.json", "first")
    assert not disk.create(f"{tmp_path}/r.json", "second")
    assert disk.read(f"{tmp_path}/r.json") == "first"
    assert [entry.name for entry in disk.list(str(tmp_path))] == ["r.json"]


def test_a_file_moves_to_another_mount_and_an_interrupted_move_there_is_completed(
    disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, rename = tmp_path / "a" / "x", tmp_path / "b" / "x", os.replace

    def between_mounts(source: Any, target: Any) -> None:
        if os.path.dirname(source) != os.path.dirname(target):  # noqa: PTH120 - paths or texts
            raise OSError(errno.EXDEV, "other mount")
        rename(source, target)

    monkeypatch.setattr("os.replace", between_mounts)
    for _ in range(2):  # the second time as after a crash before the removal
        disk.write(str(old), "rows")
        disk.move(str(old), str(new))
        assert (disk.read(str(old)), disk.read(str(new))) == (None, "rows")
    disk.write(str(old), "other rows")
    with pytest.raises(AlreadyExists):
        disk.move(str(old), str(new))
    assert disk.read(str(new)) == "rows"


def test_a_child_that_vanishes_while_it_is_listed_hides_no_other(disk: LocalDisk, tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    (tmp_path / "here").write_text("")
    assert [entry.name for entry in disk.list(str(tmp_path))] == ["here"]


def test_a_directory_is_removed_though_another_process_removes_its_files(
    disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        disk.write(f"{tmp_path}/t/{name}", name)
    unlink = os.unlink

    def removed_meanwhile(path: Any, **named: Any) -> None:
        unlink(path, **named)
        raise FileNotFoundError(errno.ENOENT, "gone", path)

    with monkeypatch.context() as patched:
        patched.setattr("os.unlink", removed_meanwhile)
        disk.remove(f"{tmp_path}/t")
    assert not list(tmp_path.iterdir())


def test_a_file_in_place_of_a_directory_is_a_failure_of_the_file_system(
    disk: LocalDisk, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for call in (disk.list, disk.make, disk.read):
        with pytest.raises(FilesUnavailable):
            call(f"{tmp_path}/file/x" if call != disk.list else f"{tmp_path}/file")


def test_a_record_that_is_not_text_is_read_as_replaced_characters(disk: LocalDisk, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(b"{\xff\r\n")
    assert disk.read(f"{tmp_path}/r.json") == "{\ufffd\r\n"
