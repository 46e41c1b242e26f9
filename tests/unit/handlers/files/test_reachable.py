"""A file system that is not mounted is an empty or missing directory, and must not be taken for lost files or
empty tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from handlers.events import SourceFile
from handlers.files.copying.copies import CopyTask, build_copy_task
from handlers.files.listing import list_plain_files, list_write
from handlers.files.paths import AllowedRoots, parse_location
from handlers.files.systems.schemes import open_file_systems
from handlers.files.table_listing import TableDirectory
from state.errors import FileLost, FilesUnavailable, NotFound
from tests.builders.replication.warehouse import Warehouse


FILES = open_file_systems()


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path)


def unmount(directory: Path, *, point: bool) -> None:
    """Make a directory look as if it were not mounted, with or without its mount point."""
    shutil.rmtree(directory)
    if point:
        directory.mkdir()


@pytest.mark.parametrize("point", [True, False])
def test_a_file_is_unavailable_and_not_lost_while_the_source_is_not_mounted(
    warehouse: Warehouse, *, point: bool
) -> None:
    task = warehouse.task(warehouse.wrote())
    unmount(warehouse.source.parent, point=point)
    with pytest.raises(FilesUnavailable, match="missing or empty"):
        warehouse.copier().copy(task)


def test_a_file_is_unavailable_and_not_lost_while_the_change_manager_is_not_mounted(
    warehouse: Warehouse,
) -> None:
    source = warehouse.wrote()
    shutil.rmtree(warehouse.source)
    (warehouse.source.parent / "other").mkdir()
    with pytest.raises(FileLost):
        warehouse.copier().copy(warehouse.task(source))
    unmount(warehouse.cm_root, point=False)
    with pytest.raises(FilesUnavailable, match="missing"):
        warehouse.copier().copy(warehouse.task(source))


@pytest.mark.parametrize(
    "read",
    [
        lambda uri, allowed: list_write(FILES, uri, 5, allowed=allowed).exists,
        lambda uri, allowed: list_plain_files(FILES, uri, allowed=allowed),
        lambda uri, allowed: TableDirectory(FILES, uri, allowed=allowed).names,
    ],
)
def test_a_table_is_unavailable_and_not_empty_while_the_source_is_not_mounted(
    read: Callable[[str, AllowedRoots], object], warehouse: Warehouse
) -> None:
    uri, allowed = f"file:{warehouse.source}", warehouse.allowed()
    with pytest.raises(FilesUnavailable):
        read(uri, allowed)
    (warehouse.source.parent / "other").mkdir()
    with suppress(NotFound):
        assert not read(uri, allowed)


def test_an_object_store_has_no_directory_above_a_table() -> None:
    task = build_copy_task(SourceFile("s3a://b/w/t/f"), "s3a://b/r/t", table_root="s3a://b/r/t")
    assert task == CopyTask(SourceFile("s3a://b/w/t/f"), "s3a://b/r/t/f", "s3a://b/r")


def test_nothing_is_written_below_the_mount_point_of_a_target_that_is_not_mounted(
    warehouse: Warehouse,
) -> None:
    location = f"file:{warehouse.target.parent}/shop.db/t"
    task = build_copy_task(warehouse.wrote(), location, table_root=location)
    with pytest.raises(FilesUnavailable, match="the directory is missing"):
        warehouse.copier().copy(task)
    assert list(warehouse.target.parent.iterdir()) == []
    (warehouse.target.parent / "shop.db").mkdir()
    assert warehouse.copier().copy(task).size_bytes == 4


def test_a_partition_is_written_again_after_its_table_lost_its_directory_to_another_table(
    warehouse: Warehouse,
) -> None:
    table = f"file:{warehouse.target.parent}/shop.db/t"
    task = build_copy_task(warehouse.wrote(), f"{table}/day=1/hour=2", table_root=table)
    with pytest.raises(FilesUnavailable, match="the directory is missing"):
        warehouse.copier().copy(task)
    (warehouse.target.parent / "shop.db").mkdir()
    assert warehouse.copier().copy(task).size_bytes == 4


def test_a_partition_outside_of_its_table_needs_the_directory_above_itself() -> None:
    task = build_copy_task(SourceFile("file:/w/t/f"), "file:/far/p", table_root="file:/r/t")
    assert task.above_uri == "file:/far"


def test_the_directory_of_a_database_may_be_a_link(warehouse: Warehouse) -> None:
    (warehouse.root / "elsewhere").mkdir()
    (warehouse.target.parent / "shop.db").symlink_to(warehouse.root / "elsewhere")
    location = f"file:{warehouse.target.parent}/shop.db/t"
    task = build_copy_task(warehouse.wrote(), location, table_root=location)
    systems = open_file_systems()
    systems.trust([parse_location(f"file:{warehouse.target.parent}/shop.db")])
    assert warehouse.copier(systems).copy(task).size_bytes == 4
