"""``tideline files check``: the smoke test of a file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.service.command_line import call
from daemon.sources.commands import FileCheck
from handlers.files.paths import parse_location
from handlers.files.systems.schemes import open_file_systems
from state.errors import FilesUnavailable, NotFound


def check_of(directory: Path) -> FileCheck:
    place = parse_location(f"file:{directory}")
    return FileCheck(open_file_systems().of(place), place)


def test_a_check_writes_reads_and_replaces_files_and_leaves_nothing(tmp_path: Path) -> None:
    checked = check_of(tmp_path)
    checked.read()
    checked.write()
    names = [step.name for step in checked.steps]
    assert names[:3] == ["list", "write 1 byte", "read 1 byte"]
    assert "replace 20,971,520 bytes" in names
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        check_of(tmp_path / "none").read()


def test_a_file_system_that_loses_bytes_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = check_of(tmp_path)
    monkeypatch.setattr("daemon.sources.commands.read_chunks", lambda _files, _file: iter([]))
    with pytest.raises(FilesUnavailable, match="does not contain the bytes"):
        checked.write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read_only", [False, True])
def test_the_command_prints_each_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], read_only: bool
) -> None:
    config = tmp_path / "tideline.yaml"
    config.write_text("{}")
    options = ["--read-only"] if read_only else []
    assert call(["files", "check", f"file:{tmp_path}", "-c", str(config), *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"file:{tmp_path}: no problems"
    assert any(line.startswith("replace") for line in lines) is not read_only
    assert call(["files", "check", f"file:{tmp_path}/none", "-c", str(config)]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["tideline.yaml"]
