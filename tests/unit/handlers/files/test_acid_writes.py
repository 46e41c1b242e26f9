"""The files of one write of a source without write events: which they are, what covers them, and how many
listings that takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from handlers.files.acid_writes import CLEANING_S, OwnListing, list_own_files
from handlers.files.filesystems import Entry, FileSystems
from handlers.files.paths import AllowedRoots, Location
from handlers.files.systems.local import LocalFiles
from state.errors import FilesUnavailable, UnsafePath


class CountingFiles(LocalFiles):
    """Local files that record the directories that are listed."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []
        self.before: Callable[[Location], None] = lambda _location: None

    def list(self, location: Location) -> Sequence[Entry]:
        self.before(location)
        self.listed.append(Path(location.path).name)
        return super().list(location)


class Directory:
    """The directory ``t`` of a table."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.table = root / "t"
        self.table.mkdir()
        self.files = CountingFiles()
        self.times_s = iter([0.0, 0.0])

    def lay(self, *names: str) -> None:
        for name in names:
            path = self.table / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"rows")

    def compact(self, base: str) -> None:
        self.lay(f"{base}/bucket_00000")
        marker = json.dumps({"thisFileVersion": "0", "dataFormat": "compacted"})
        (self.table / base / "_metadata_acid").write_text(marker)

    def list(self, write_id: int, *named: str) -> OwnListing:
        return list_own_files(
            FileSystems({"file": lambda _authority, _options: self.files}),
            f"file:{self.table}",
            write_id,
            named=named,
            allowed=AllowedRoots.of([f"file:{self.root}"]),
            clock=lambda: next(self.times_s),
        )


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path)


def names(listing: OwnListing) -> list[str]:
    return [f"{own.file.subdir}/{own.file.uri.rpartition('/')[2]}" for own in listing.files]


def test_the_files_of_all_statements_are_found_with_their_sizes_in_one_listing_each(
    directory: Directory,
) -> None:
    mine = [
        "delete_delta_0000002_0000002_0001/bucket_00000",
        "delta_0000002_0000002_0000/HIVE_UNION_SUBDIR_1/000000_0",
        "delta_0000002_0000002_0000/bucket_00000",
    ]
    directory.lay(*mine, "delta_0000001_0000001_0000/bucket_00000", "delta_0000002_0000002_0000/_meta")
    found = directory.list(2)
    assert sorted(names(found)) == mine
    assert {own.size_bytes for own in found.files} == {4}
    assert found.covered_by is None
    assert len(directory.files.listed) == 4


def test_directories_whose_files_are_known_are_not_listed(directory: Directory) -> None:
    directory.lay("delta_0000002_0000002_0000/bucket_00000", "delta_0000002_0000002_0001/bucket_00000")
    found = directory.list(2, "delta_0000002_0000002_0000")
    assert names(found) == ["delta_0000002_0000002_0001/bucket_00000"]
    assert directory.files.listed == ["t", "delta_0000002_0000002_0001"]


@pytest.mark.parametrize("base", ["base_0000002", "base_0000005"])
def test_a_compaction_has_the_name_of_an_overwrite_and_covers_the_write(
    directory: Directory, base: str
) -> None:
    directory.compact(base)
    found = directory.list(2)
    assert found.files == ()
    assert found.covered_by == base


def test_an_overwrite_is_listed_once_although_its_marker_is_looked_for(directory: Directory) -> None:
    directory.lay("base_0000002/bucket_00000")
    found = directory.list(2)
    assert names(found) == ["base_0000002/bucket_00000"]
    assert found.covered_by is None
    assert directory.files.listed == ["t", "base_0000002"]


def test_a_write_whose_files_are_found_may_still_be_covered(directory: Directory) -> None:
    """The cleaner removes one directory after the other."""
    directory.lay("delta_0000002_0000002_0000/bucket_00000", "delta_0000001_0000003/bucket_00000")
    found = directory.list(2)
    assert found.covered_by == "delta_0000001_0000003"
    assert not found.is_streamed


def test_a_directory_that_is_cleaned_meanwhile_covers_its_write(directory: Directory) -> None:
    directory.lay("delta_0000002_0000002_0000/bucket_00000")

    def clean(location: Location) -> None:
        if location.name.startswith("delta"):
            shutil.rmtree(directory.table / location.name)

    directory.files.before = clean
    found = directory.list(2)
    assert found.files == ()
    assert found.covered_by == "delta_0000002_0000002_0000"


def test_after_a_slow_listing_the_names_are_read_again(directory: Directory) -> None:
    directory.lay("delta_0000002_0000002_0000/bucket_00000")
    directory.times_s = iter([0.0, CLEANING_S + 1])

    def compact(location: Location) -> None:
        if location.name.startswith("delta"):
            directory.compact("base_0000004")

    directory.files.before = compact
    assert directory.list(2).covered_by == "base_0000004"


def test_a_batch_is_streamed_while_it_has_side_files(directory: Directory) -> None:
    directory.lay("delta_0000002_0000004/bucket_00000", "delta_0000002_0000004/bucket_00000_flush_length")
    found = directory.list(3)
    assert found.is_streamed
    assert found.covered_by == "delta_0000002_0000004"


def test_a_directory_that_does_not_exist_is_not_one_without_files(directory: Directory) -> None:
    directory.table.rmdir()
    (directory.root / "other").mkdir()
    assert not directory.list(2).exists


def test_a_file_system_that_is_not_mounted_is_not_an_empty_directory(directory: Directory) -> None:
    directory.table.rmdir()
    with pytest.raises(FilesUnavailable):
        directory.list(2)


def test_nothing_outside_the_allowed_directories_is_listed(directory: Directory) -> None:
    directory.root /= "t"
    directory.table = directory.root.parent
    with pytest.raises(UnsafePath):
        directory.list(2)
    assert directory.files.listed == []
