from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from handlers.files.paths import AllowedRoots, parse_location
from handlers.files.systems.schemes import open_file_systems
from handlers.files.table_listing import TableDirectory
from state.errors import NotFound, UnsafePath


def lay(root: Path, *names: str) -> str:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return f"file:{root}"


def test_files_are_listed_with_their_directory_and_size(tmp_path: Path) -> None:
    root = lay(
        tmp_path, "000000_0", "delta_1_1/bucket_00000", "u/HIVE_UNION_SUBDIR_1/000000_0", "_tmp/x", ".h"
    )
    directory = TableDirectory(open_file_systems(), root)
    assert sorted(directory.directories) == ["delta_1_1", "u"]
    found = {
        (each.file.uri, each.file.subdir, each.size_bytes) for each in directory.read_files(directory.names)
    }
    assert found == {
        (f"{root}/000000_0", "", 8),
        (f"{root}/delta_1_1/bucket_00000", "delta_1_1", 22),
        (f"{root}/u/HIVE_UNION_SUBDIR_1/000000_0", "u/HIVE_UNION_SUBDIR_1", 30),
    }


def test_a_missing_directory_is_empty(tmp_path: Path) -> None:
    assert TableDirectory(open_file_systems(), f"file:{tmp_path}/none").names == []


def test_a_directory_that_vanishes_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    directory = TableDirectory(open_file_systems(), lay(tmp_path, "delta_1_1/bucket_00000"))
    shutil.rmtree(tmp_path / "delta_1_1")
    with pytest.raises(NotFound):
        directory.read_files(["delta_1_1"])


def test_a_directory_outside_the_roots_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafePath):
        TableDirectory(open_file_systems(), "file:/etc", allowed=AllowedRoots.of([f"file:{tmp_path}"]))


def test_a_tree_is_removed_with_everything_in_it_but_not_behind_links(tmp_path: Path) -> None:
    lay(tmp_path, "t/base_9/_meta", "t/base_9/a/b", "kept/file")
    (tmp_path / "t/base_9/link").symlink_to(tmp_path / "kept")
    location = parse_location(f"file:{tmp_path}/t/base_9")
    files = open_file_systems().of(location)
    files.remove_tree(location)
    files.remove_tree(location)
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == []
    assert (tmp_path / "kept/file").exists()
