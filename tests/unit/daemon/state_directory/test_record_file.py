"""Lists of records that a restart finds again, and that stop nothing if it cannot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from daemon.state_directory.record_file import RecordFile


@dataclass(frozen=True)
class Row:
    name: str
    number: int = 0


def rows_in(path: Path | None) -> RecordFile[Row]:
    return RecordFile(path, Row, "the rows")


def test_records_are_found_again(tmp_path: Path) -> None:
    file = rows_in(tmp_path / "rows.json")
    assert file.read() == []
    file.write([Row("a", 1), Row("b")])
    assert rows_in(tmp_path / "rows.json").read() == [Row("a", 1), Row("b")]


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[1]", b'[{"number": 1}]', b"\xff"])
def test_a_damaged_file_is_an_empty_list_that_can_be_written(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rows.json"
    path.write_bytes(content)
    file = rows_in(path)
    assert file.read() == []
    file.write([Row("a")])
    assert file.read() == [Row("a")]


def test_a_directory_that_is_missing_stops_nothing(tmp_path: Path) -> None:
    file = rows_in(tmp_path / "missing" / "rows.json")
    file.write([Row("a")])
    assert file.read() == []


def test_without_a_path_nothing_is_stored() -> None:
    file = rows_in(None)
    file.write([Row("a")])
    assert file.read() == []
