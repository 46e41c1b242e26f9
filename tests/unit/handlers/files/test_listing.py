from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handlers.events import SourceFile
from handlers.files.filesystems import Entry, FileSystems
from handlers.files.listing import (
    has_files_of_ended_writes,
    keep_relative_path,
    list_plain_files,
    list_write,
)
from handlers.files.paths import AllowedRoots, Location
from handlers.files.systems.schemes import open_file_systems
from state.errors import LimitExceeded, NotFound, Refused, UnsafePath


def lay(root: Path, *names: str) -> str:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return f"file:{root}"


def listed(root_uri: str, write_id: int) -> list[str]:
    files = list_write(open_file_systems(), root_uri, write_id).files
    assert all(file.uri == f"{root_uri}/{file.subdir}/{file.uri.rpartition('/')[2]}" for file in files)
    return [file.uri.removeprefix(root_uri + "/") for file in files]


def test_all_directories_of_a_write_are_found_and_no_others(tmp_path: Path) -> None:
    mine = [
        "base_0000005/bucket_00000_0",
        "delete_delta_0000005_0000005_0001/bucket_00000_0",
        "delta_0000005_0000005/bucket_00000_0",
        "delta_0000005_0000005_0000/bucket_00000_0",
        "delta_0000005_0000005_0000/bucket_00001_0",
        "delta_5_5_0002/HIVE_UNION_SUBDIR_1/000000_0",
    ]
    others = [
        "delta_0000004_0000004/bucket_00000_0",
        "delta_0000004_0000005/bucket_00000_0",
        "delta_0000055_0000055/bucket_00000_0",
        "base_0000004/bucket_00000_0",
        "dt=1/delta_0000005_0000005/bucket_00000_0",
        "delta_0000005_0000005_0000/_orc_acid_version",
        "delta_0000005_0000005_0000/._tideline_00000000_00",
        "delta_0000005_0000005.bak/bucket_00000_0",
    ]
    assert listed(lay(tmp_path, *mine, *others), 5) == sorted(mine)


def test_the_write_id_is_in_subdir_and_no_checksum_is_recorded(tmp_path: Path) -> None:
    root = lay(tmp_path, "delta_0000005_0000005_0000/bucket_00000_0")
    (file,) = list_write(open_file_systems(), root, 5).files
    assert file == SourceFile(
        f"{root}/delta_0000005_0000005_0000/bucket_00000_0", None, None, "delta_0000005_0000005_0000"
    )


def test_a_compacted_directory_is_used_only_if_the_original_is_gone(tmp_path: Path) -> None:
    root = lay(
        tmp_path, "delta_0000005_0000005_0000/bucket_00000_0", "delta_0000005_0000005_v0000012/bucket_00000"
    )
    assert listed(root, 5) == ["delta_0000005_0000005_0000/bucket_00000_0"]
    (tmp_path / "delta_0000005_0000005_0000/bucket_00000_0").unlink()
    (tmp_path / "delta_0000005_0000005_0000").rmdir()
    assert listed(root, 5) == ["delta_0000005_0000005_v0000012/bucket_00000"]


def test_an_absent_table_has_no_write_directories(tmp_path: Path) -> None:
    assert list_write(open_file_systems(), f"file:{tmp_path}/absent", 5).files == ()


def test_a_plain_tables_files_are_listed_with_their_sub_directories(tmp_path: Path) -> None:
    union = ["HIVE_UNION_SUBDIR_1/000000_0", "HIVE_UNION_SUBDIR_2/000000_0", "a=1/b=2/000000_0"]
    root = lay(tmp_path, "000000_0", "_SUCCESS", ".hidden", ".hive-staging/000000_0", "_tmp/f", *union)
    (tmp_path / "link").symlink_to(tmp_path / "000000_0")
    assert list_plain_files(open_file_systems(), root) == (
        SourceFile(f"{root}/000000_0"),
        *(SourceFile(f"{root}/{name}", subdir=name.rpartition("/")[0]) for name in union),
    )


@pytest.mark.parametrize(
    ("uri", "root", "subdir"),
    [
        ("hdfs://nn/w/t/f", "hdfs://nn/w/t", ""),
        ("hdfs://nn/w/t/HIVE_UNION_SUBDIR_1/f", "hdfs://nn:8020/w/t/", "HIVE_UNION_SUBDIR_1"),
        ("hdfs://nn/w/t/a=1/b=2/f", "hdfs://nn/w/t", "a=1/b=2"),
        ("hdfs://nn/w/t2/f", "hdfs://nn/w/t", ""),
        ("hdfs://nn/w/t2/HIVE_UNION_SUBDIR_12/f", "hdfs://nn/w/t", "HIVE_UNION_SUBDIR_12"),
        ("hdfs://nn/w/t/HIVE_UNION_SUBDIR_1/f", None, "HIVE_UNION_SUBDIR_1"),
        ("hdfs://nn/w/HIVE_UNION_SUBDIR_1/f", "hdfs://nn/w/HIVE_UNION_SUBDIR_1", ""),
        ("hdfs://nn/a/f", "hdfs://nn/", "a"),
    ],
)
def test_a_file_keeps_its_path_below_its_table(uri: str, root: str | None, subdir: str) -> None:
    assert keep_relative_path(SourceFile(uri, "1a", "hdfs://nn/cm"), root) == SourceFile(
        uri, "1a", "hdfs://nn/cm", subdir
    )


def test_a_directory_that_vanishes_while_it_is_listed_has_no_files() -> None:
    class Files:
        def list(self, location: Location) -> list[Entry]:
            if location.name == "gone":
                raise NotFound("no such file or directory")
            return [
                Entry("f", is_directory=False, size_bytes=1),
                Entry("gone", is_directory=True, size_bytes=0),
            ]

    files: Any = Files()
    systems = FileSystems({"hdfs": lambda _authority, _options: files})
    assert list_plain_files(systems, "hdfs://nn/t") == (SourceFile("hdfs://nn/t/f"),)


def test_a_missing_plain_directory_is_not_found_and_a_file_is_not_a_directory(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        list_plain_files(open_file_systems(), f"file:{tmp_path}/absent")
    with pytest.raises((NotFound, Refused)):
        list_plain_files(open_file_systems(), lay(tmp_path, "file") + "/file")


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    root = lay(tmp_path, "delta_5_5/a", "delta_5_5/b", "c", "d")
    with pytest.raises(LimitExceeded):
        list_write(open_file_systems(), root, 5, files_max=1)
    with pytest.raises(LimitExceeded):
        list_plain_files(open_file_systems(), root, files_max=1)


def test_directories_nested_without_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded):
        listed(lay(tmp_path, "delta_5_5/" + "d/" * 9 + "f"), 5)
    with pytest.raises(LimitExceeded):
        list_plain_files(open_file_systems(), lay(tmp_path, "d/" * 33 + "f"))


def test_an_unsafe_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafePath):
        list_plain_files(open_file_systems(), lay(tmp_path, "a\nb"))


def test_a_directory_that_may_not_be_read_is_refused_before_any_file_system_is_opened() -> None:
    opened: list[str] = []

    def start(authority: str, _options: object) -> Any:
        opened.append(authority)

    systems, allowed = FileSystems({"hdfs": start}), AllowedRoots.of(["hdfs://lake/warehouse"])
    with pytest.raises(UnsafePath):
        list_plain_files(systems, "hdfs://elsewhere/warehouse/t", allowed=allowed)
    with pytest.raises(UnsafePath):
        list_write(systems, "hdfs://lake/warehouse2", 5, allowed=allowed)
    assert opened == []


def test_a_root_itself_may_be_listed_and_what_is_below(tmp_path: Path) -> None:
    root = lay(tmp_path, "t/f", "g")
    allowed = AllowedRoots.of([root])
    assert list_plain_files(open_file_systems(), root, allowed=allowed) == (
        SourceFile(f"{root}/g"),
        SourceFile(f"{root}/t/f", subdir="t"),
    )
    assert list_plain_files(open_file_systems(), f"{root}/t", allowed=allowed) == (SourceFile(f"{root}/t/f"),)


COMPACTED = '{"thisFileVersion":"0","dataFormat":"compacted"}'
TRUNCATED = '{"thisFileVersion":"0","dataFormat":"truncated"}'


@pytest.mark.parametrize(
    ("marker", "write_id", "files", "conclusive"),
    [
        (COMPACTED, 4, 0, False),
        (COMPACTED, 5, 0, False),
        (COMPACTED, 6, 0, True),
        (TRUNCATED, 4, 0, True),
        (TRUNCATED, 5, 1, True),
        ("", 5, 1, True),
        ("[]", 5, 1, True),
        ('{"dataFormat":"compacted"}' + " " * 5000, 5, 1, True),
        (None, 5, 1, True),
    ],
)
def test_a_base_that_is_marked_as_a_compaction_has_not_the_files_of_the_write_that_it_is_named_after(
    tmp_path: Path, marker: str | None, write_id: int, files: int, conclusive: bool
) -> None:
    root = lay(tmp_path, "base_0000005/bucket_00000")
    if marker is not None:
        (tmp_path / "base_0000005/_metadata_acid").write_text(marker)
    listing = list_write(open_file_systems(), root, write_id)
    assert (len(listing.files), listing.conclusive) == (files, conclusive)


def test_a_base_that_vanishes_while_it_is_listed_may_have_had_the_write() -> None:
    class Files:
        def list(self, location: Location) -> list[Entry]:
            if location.name != "t":
                raise NotFound("no such file or directory")
            return [Entry("base_0000005", is_directory=True, size_bytes=0)]

    files: Any = Files()
    systems = FileSystems({"hdfs": lambda _authority, _options: files})
    assert not list_write(systems, "hdfs://nn/t", 4).conclusive


def test_a_marked_base_has_files_of_ended_writes_although_the_one_that_it_is_named_after_is_open(
    tmp_path: Path,
) -> None:
    root = lay(tmp_path, "base_0000005/bucket_00000")
    allowed = AllowedRoots.of([root])
    opened = frozenset({5})
    assert not has_files_of_ended_writes(open_file_systems(), root, 5, opened, allowed=allowed)
    (tmp_path / "base_0000005/_metadata_acid").write_text(COMPACTED)
    assert has_files_of_ended_writes(open_file_systems(), root, 5, opened, allowed=allowed)


@pytest.mark.parametrize(
    ("directories", "files", "conclusive", "explains_rows"),
    [
        (["delta_0000005_0000005_0000"], 1, True, True),
        (["delta_0000001_0000001"], 0, True, True),
        ([], 0, True, False),
        (["base_0000007_v0000012"], 0, False, False),
        (["delta_0000004_0000006_v0000012", "delta_0000001_0000001"], 0, False, False),
        (["base_0000004_v0000012"], 0, True, True),
        (["base_0000007"], 0, True, True),
        (["delta_0000004_0000006"], 0, False, False),
        (["delta_0000006_0000008"], 0, True, True),
        (["base_0000007_v0000012", "delta_0000005_0000005"], 1, True, True),
        (None, 0, False, False),
    ],
)
def test_a_listing_says_whether_files_of_the_write_may_have_been_removed(
    tmp_path: Path, directories: list[str] | None, files: int, conclusive: bool, explains_rows: bool
) -> None:
    root = tmp_path / "p=1"
    for name in directories or ():
        (root / name).mkdir(parents=True)
        (root / name / "bucket_00000").write_bytes(b"x")
    if directories is not None:
        root.mkdir(exist_ok=True)
    found = list_write(open_file_systems(), f"file:{root}", 5)
    assert (len(found.files), found.conclusive, found.explains_rows) == (files, conclusive, explains_rows)
