"""Directories deleted later."""

from __future__ import annotations

from pathlib import Path

import pytest

from handlers.files.paths import parse_location
from state.errors import UnsafePath
from streaming.table.hours import HOUR_S
from streaming.table.metastore_table import MetastoreTable
from streaming.table.retention import Deletions
from tests.builders.flat.layouts import HOUR, a_layout
from tests.builders.flat.local_storage import LocalStorage
from tests.builders.flat.memory_catalog import a_flat_table, an_hour_with_files


@pytest.fixture
def table(tmp_path: Path) -> MetastoreTable:
    return a_flat_table(tmp_path, a_layout({}))


@pytest.fixture
def deletions(tmp_path: Path) -> Deletions:
    return Deletions(parse_location(str(tmp_path / "flat")), LocalStorage())


def test_a_replaced_directory_is_deleted_when_it_is_due(table: MetastoreTable, deletions: Deletions) -> None:
    old = an_hour_with_files(table, HOUR, "b-0.orc")
    table.add_hour(HOUR)
    new = an_hour_with_files(table, HOUR, "s-0.orc", version=2)
    table.switch_hour(HOUR, new, {})
    deletions.note(old, 50, "sealed")
    assert deletions.sweep(table, 49).waiting == 1
    assert deletions.sweep(table, 50).deleted == [old]
    assert not deletions.notes()
    assert not Path(old.path).exists()
    assert Path(new.path, "s-0.orc").exists()


def test_noting_a_directory_twice_changes_nothing(table: MetastoreTable, deletions: Deletions) -> None:
    old = an_hour_with_files(table, HOUR, "a.orc")
    deletions.note(old, 50, "sealed")
    deletions.note(old, 90, "again")
    assert [(note.due_s, note.reason) for note in deletions.notes()] == [(50, "sealed")]


def test_a_directory_that_a_partition_points_to_is_kept(table: MetastoreTable, deletions: Deletions) -> None:
    used = an_hour_with_files(table, HOUR, "a.orc")
    table.add_hour(HOUR)
    deletions.note(used, 0, "a mistake")
    assert deletions.sweep(table, 1).kept == [used]
    assert Path(used.path, "a.orc").exists()


def test_a_directory_above_a_partition_or_outside_hours_is_kept(
    table: MetastoreTable, deletions: Deletions
) -> None:
    used = an_hour_with_files(table, HOUR, "a.orc")
    table.add_hour(HOUR)
    other = an_hour_with_files(table, HOUR + HOUR_S, "a.orc").parent
    for place in (used.parent, other):
        deletions.note(place, 0, "a mistake")
    assert set(deletions.sweep(table, 1).kept) == {used.parent, other}
    assert Path(used.path).exists()
    assert Path(other.path).exists()


@pytest.mark.parametrize("text", ["/", "/elsewhere/v1", "{root}", "{root}x/v1"])
def test_directories_outside_the_table_are_refused(
    table: MetastoreTable, deletions: Deletions, tmp_path: Path, text: str
) -> None:
    with pytest.raises(UnsafePath):
        deletions.note(parse_location(text.format(root=tmp_path / "flat")), 0, "no")


def test_an_unreadable_note_is_kept_and_ignored(table: MetastoreTable, deletions: Deletions) -> None:
    old = an_hour_with_files(table, HOUR, "a.orc")
    deletions.note(old, 0, "sealed")
    place = Path(table.read().location.path, ".tideline/deletions")
    (place / ("0" * 32 + ".json")).write_text('{"location": "/etc/../v1", "due": 0, "reason": ""}')
    (place / ("1" * 32 + ".json")).write_text("not json")
    assert deletions.sweep(table, 1).deleted == [old]
    assert len(list(place.iterdir())) == 2


def test_an_interrupted_pass_is_completed_by_the_next(table: MetastoreTable, deletions: Deletions) -> None:
    old = an_hour_with_files(table, HOUR, "a.orc")
    deletions.note(old, 0, "sealed")
    LocalStorage().remove(str(old))
    assert deletions.sweep(table, 1).deleted == [old]
    assert not deletions.notes()
