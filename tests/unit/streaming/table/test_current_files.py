"""The record of a table's current files: what it says, when it is written, and what a reader finds by it at
any moment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from pyarrow import fs, orc

from handlers.files.paths import Location
from state.columns.types import ColumnType
from state.errors import FilesUnavailable, InvalidRequest, NotFound, StateCorrupt
from streaming.settings import PartitionColumn
from streaming.table.current_files import PATH, CurrentTable, CurrentTableFile, find_current_files
from streaming.table.flat_table import HourPartition
from streaming.table.hours import HOUR_S, HourColumns
from streaming.table.partition_cache import CachedTable
from tests.builders.flat.layouts import HOUR, a_layout, next_version, retyped
from tests.builders.flat.local_storage import LocalStorage
from tests.builders.flat.memory_catalog import a_flat_table, an_hour_with_files
from tideline import open_dataset


LAYOUT = a_layout({"n": ColumnType.TINYINT, "a.b": ColumnType.STRING})


@pytest.fixture
def table(tmp_path: Path) -> CachedTable:
    return CachedTable(a_flat_table(tmp_path, LAYOUT))


@pytest.fixture
def current(table: CachedTable) -> CurrentTableFile:
    return CurrentTableFile(table, LocalStorage())


def add(table: CachedTable, hour: int, values: Sequence[Any], kind: pa.DataType, *, version: int = 1) -> Path:
    """Write a file of the column ``n`` into a version of an hour."""
    place = Path(an_hour_with_files(table._inner, hour, version=version).path)  # type: ignore[arg-type]
    path = place / f"{len(list(place.iterdir()))}.orc"
    orc.write_table(
        pa.table({"_rescued": pa.nulls(len(values), pa.string()), "n": pa.array(values, kind)}), path
    )
    table.add_hour(hour)
    return path


def numbers(table: CachedTable, filesystem: Any = None) -> list[Any]:
    place = table.read().location.path
    rows = open_dataset(place if filesystem is None else place.lstrip("/"), filesystem).to_table(
        columns=["n"]
    )
    return sorted(rows["n"].to_pylist())


def test_a_reader_finds_each_row_once_while_an_hour_is_switched(
    table: CachedTable, current: CurrentTableFile
) -> None:
    add(table, HOUR, [1], pa.int8())
    add(table, HOUR, [2], pa.int8())
    current.write(table.read())
    add(table, HOUR, [1, 2], pa.int8(), version=2)
    assert numbers(table) == [1, 2], "the next version is complete, and not current"
    table.switch_hour(HOUR, an_hour_with_files(table._inner, HOUR, version=2), {})  # type: ignore[arg-type]
    assert numbers(table) == [1, 2], "a crash here changes nothing: the old files are still there"
    current.write(table.read())
    assert numbers(table) == [1, 2]
    add(table, HOUR + HOUR_S, [3], pa.int8())
    assert numbers(table) == [1, 2], "an hour without a record"
    current.write(table.read())
    assert numbers(table) == [1, 2, 3]
    table.drop_hours([HOUR])
    current.write(table.read())
    assert numbers(table) == [3]


def test_values_of_older_files_have_the_current_type(table: CachedTable, current: CurrentTableFile) -> None:
    add(table, HOUR, [1], pa.int8())
    add(table, HOUR, ["5"], pa.string())
    state = table.alter(table.read(), retyped(next_version(LAYOUT), 1, ColumnType.INT))
    add(table, HOUR + HOUR_S, [70_000], pa.int32())
    current.write(state)
    assert numbers(table) == [1, 5, 70_000]
    state = table.alter(state, retyped(next_version(state.layout), 1, ColumnType.STRING), proven=[1])
    current.write(state)
    found = open_dataset(Path(state.location.path))
    assert sorted(found.to_table()["n"].to_pylist()) == ["1", "5", "70000"]
    assert found.schema.names == ["_rescued", "n", "a/b", "yyyy_mm_dd", "hh"]
    assert found.to_table(columns=["hh", "a/b"]).to_pylist() == [
        {"hh": hh, "a/b": None} for hh in (21, 21, 22)
    ]
    assert len(list(found.get_fragments(filter=pa.compute.field("hh") == 22))) == 1


def test_the_record_is_written_only_if_it_changes_and_by_every_new_process(
    table: CachedTable, current: CurrentTableFile
) -> None:
    add(table, HOUR, [1], pa.int8())
    state = table.read()
    current.write(state)
    path = Path(state.location.path, PATH)
    path.write_text("changed by a test")
    current.write(replace(state, layout=next_version(state.layout)))
    assert path.read_text() == "changed by a test"
    CurrentTableFile(table, LocalStorage()).write(state)
    assert json.loads(path.read_text()) == {
        "format": 1,
        "columns": [["_rescued", "string"], ["n", "tinyint"], ["a/b", "string"]],
        "partition_columns": [["yyyy_mm_dd", "string"], ["hh", "int"]],
        "directories": {"yyyy_mm_dd=2016-04-18/hh=21": "v1"},
    }
    assert CurrentTable.parse(path.read_text()).text == path.read_text()


def test_an_hour_that_a_user_dropped_leaves_the_record(table: CachedTable, current: CurrentTableFile) -> None:
    for hour in (HOUR, HOUR + HOUR_S):
        add(table, hour, [hour // HOUR_S % 24], pa.int8())
    current.write(table.read())
    table._inner.drop_hours([HOUR])
    table.forget_if_changed()
    current.write(table.read())
    assert numbers(table) == [22]


def test_partition_values_are_those_of_the_metastore(tmp_path: Path) -> None:
    columns = HourColumns((PartitionColumn("at", "string", "%d/%m %Y:%H"),))
    state = a_flat_table(tmp_path, LAYOUT, columns).read()
    place = columns.directory(state.location, HOUR).child("v3")
    partition = HourPartition(HOUR, columns.values(HOUR), place)
    read = CurrentTable.parse(CurrentTable.of(state, [partition]).text)
    assert read.locate(state.location) == [(place, ("18/04 2016:21",))]
    assert place.path.endswith("/at=18%2F04 2016%3A21/v3")


def test_a_file_system_may_be_given(table: CachedTable, current: CurrentTableFile) -> None:
    add(table, HOUR, [1], pa.int8())
    current.write(table.read())
    assert numbers(table, fs.SubTreeFileSystem("/", fs.LocalFileSystem())) == [1]
    assert open_dataset(table.read().location.path, fsspec.filesystem("file")).count_rows() == 1
    assert open_dataset(f"{table.read().location}").to_table().num_rows == 1


def test_a_reader_that_meets_a_change_starts_again(table: CachedTable, current: CurrentTableFile) -> None:
    add(table, HOUR, [1], pa.int8())
    current.write(table.read())
    storage, reads = LocalStorage(), 0

    def read(path: Location) -> str | None:
        nonlocal reads
        reads += 1
        text = storage.read(str(path))
        if reads == 1 or reads > 3:
            add(table, HOUR + reads * HOUR_S, [1], pa.int8())
            current.write(table.read())
        return text

    def list_directory(directory: Location) -> list[str]:
        return [entry.name for entry in storage.list(str(directory))]

    place = table.read().location
    found, files = find_current_files(place, read, list_directory)
    assert (reads, len(found.directories), len(files)) == (3, 2, 2)
    with pytest.raises(FilesUnavailable, match="changes faster"):
        find_current_files(place, read, list_directory)


def test_a_directory_without_a_usable_record_is_refused(
    table: CachedTable, current: CurrentTableFile, tmp_path: Path
) -> None:
    with pytest.raises(NotFound, match="no record") as caught:
        open_dataset(tmp_path)
    assert "split seal" in caught.value.hint
    add(table, HOUR, [1], pa.int8())
    current.write(table.read())
    path = Path(table.read().location.path, PATH)
    for text in ("[]", "{}", '{"format":2}', path.read_text()[:-20]):
        path.write_text(text)
        with pytest.raises(StateCorrupt, match="cannot be read"):
            numbers(table)
    named = CurrentTable.of(table.read(), table.partitions())
    path.write_text(replace(named, directories={"yyyy_mm_dd=2016-04-18/hh=21": "file:/elsewhere/v1"}).text)
    with pytest.raises(InvalidRequest, match="not in the table's directory"):
        numbers(table)
