from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from handlers.files.paths import parse_location
from handlers.files.systems.local import LocalFiles
from handlers.replication.verification.visible_files import list_acid_files, list_tree, read_md5
from state.transactions.valid_write_ids import ValidWriteIds


DELTA = "delta_0000001_0000001_0000"


@pytest.mark.parametrize(
    ("base", "write_ids", "expected"),
    [
        ("base_0000002_v0000010", ValidWriteIds("t", 2, open=(2,)), [DELTA]),
        ("base_0000002_v0000010", ValidWriteIds("t", 2), ["base_0000002_v0000010"]),
        ("base_0000002_v0000010", ValidWriteIds("t", 3, open=(3,)), ["base_0000002_v0000010"]),
        ("base_0000002", ValidWriteIds("t", 2, open=(1,)), ["base_0000002"]),
        ("base_0000002", ValidWriteIds("t", 2, open=(2,)), [DELTA]),
    ],
    ids=["open", "committed", "a later write is open", "an older write is open", "open, without suffix"],
)
def test_the_base_of_an_overwrite_is_listed_if_its_transaction_is_committed(
    tmp_path: Path, base: str, write_ids: ValidWriteIds, expected: list[str]
) -> None:
    for name in (DELTA, base):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bucket_00000_0").write_bytes(b"rows")
    found = list_acid_files(LocalFiles(), parse_location(str(tmp_path)), write_ids)
    assert [directory.name for directory in found] == expected


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("_empty", [DELTA]),
        (None, [DELTA]),
        ("_metadata_acid", ["base_0000002"]),
        ("_orc_acid_version", ["base_0000002"]),
        ("000000_0", ["base_0000002"]),
    ],
    ids=["Impala", "nothing", "truncation by Hive", "overwrite without rows", "rows"],
)
def test_a_base_in_which_hive_finds_no_file_is_ignored(
    tmp_path: Path, inside: str | None, expected: list[str]
) -> None:
    for name in (DELTA, "base_0000002"):
        (tmp_path / name).mkdir()
    (tmp_path / DELTA / "bucket_00000_0").write_bytes(b"rows")
    if inside:
        (tmp_path / "base_0000002" / inside).write_bytes(b"")
    found = list_acid_files(LocalFiles(), parse_location(str(tmp_path)), ValidWriteIds("t", 2))
    assert [directory.name for directory in found] == expected


@pytest.mark.parametrize(
    ("content", "expected"), [("compacted", "base_0000002"), ("truncated", DELTA)], ids=str
)
def test_a_base_of_an_aborted_write_is_listed_if_a_compaction_wrote_it(
    tmp_path: Path, content: str, expected: str
) -> None:
    for name in (DELTA, "base_0000002"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bucket_00000").write_bytes(b"rows")
    (tmp_path / "base_0000002/_metadata_acid").write_text(f'{{"dataFormat":"{content}"}}')
    write_ids = ValidWriteIds("t", 2, aborted=(2,))
    (directory,) = list_acid_files(LocalFiles(), parse_location(str(tmp_path)), write_ids)
    assert directory.name == expected
    assert directory.compacted is (content == "compacted")


def test_a_name_that_cannot_be_used_is_listed_so_that_it_is_a_difference(tmp_path: Path) -> None:
    (tmp_path / "ta\tb").mkdir()
    (tmp_path / "back\\slash").write_bytes(b"rows")
    (tmp_path / "fine").write_bytes(b"rows")
    files = LocalFiles()
    found = list_tree(files, parse_location(str(tmp_path)), partial(read_md5, files))
    assert sorted(found) == ["back\\slash", "fine", "ta\tb"]
