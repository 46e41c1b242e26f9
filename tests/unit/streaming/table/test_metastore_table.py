"""The flat table with a misbehaving metastore, the writer's lease and the compatibility view, without a real
metastore."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from handlers.files.paths import parse_location
from handlers.structs.objects import Partition, StorageDescriptor, Table
from state.columns.paths import KeyPath
from state.columns.slots import SlotState
from state.columns.types import ColumnType
from state.errors import (
    AmbiguousCall,
    BadInput,
    BadPartitionValue,
    Conflict,
    FlatTableAltered,
    Inconsistent,
    InvalidRequest,
    StateLocked,
)
from streaming.split.file_columns import promoting_slots
from streaming.table.compatibility_view import (
    OLD_NAME,
    OldName,
    build_query,
    find_collapsed_names,
    locate_collapsed,
)
from streaming.table.hours import HOUR_S, HourColumns
from streaming.table.lease import LeaseRecord, WriterLease
from streaming.table.metastore_table import MetastoreTable
from streaming.table.parameters import LAST_PROMOTION, PROMOTION, VERSION, WRITER
from tests.builders.flat.layouts import HOUR, a_layout, compatibility_view, next_version, rekeyed, with_keys
from tests.builders.flat.local_storage import LocalStorage
from tests.builders.flat.memory_catalog import MemoryCatalog, a_flat_table


LAYOUT = a_layout({"foo.bar": ColumnType.STRING, "price": ColumnType.INT})


class LosesAnswers(MemoryCatalog):
    """Its next alteration gets no answer; ``applies`` states whether it was applied."""

    applies = True
    loses = False

    def replace_table(self, table: Table, *, key: str, expected: str, narrows: bool = False) -> None:
        assert not narrows
        if not self.loses or self.applies:
            super().replace_table(table, key=key, expected=expected)
        if self.loses:
            raise AmbiguousCall("the connection broke")


class SeesDirectories(MemoryCatalog):
    """Records for each new location whether its directory exists already."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[bool] = []

    def create_table(self, table: Table) -> None:
        self._see(table.sd)
        super().create_table(table)

    def add_partition(self, partition: Partition) -> None:
        self._see(partition.sd)
        super().add_partition(partition)

    def _see(self, storage: StorageDescriptor) -> None:
        self.seen.append(Path(parse_location(storage.location or "").path).is_dir())


@pytest.fixture
def table(tmp_path: Path) -> MetastoreTable:
    return a_flat_table(tmp_path, LAYOUT)


@pytest.mark.parametrize("applies", [True, False])
def test_after_a_lost_answer_the_table_is_read_again(table: MetastoreTable, applies: bool) -> None:
    catalog = LosesAnswers()
    catalog.create_table(table._catalog.get_table("db", "flat"))
    unsure = MetastoreTable(catalog, "db", "flat", table._storage)
    state = unsure.read()
    catalog.applies, catalog.loses = applies, True
    after = with_keys(next_version(LAYOUT), {"new": ColumnType.STRING})
    if applies:
        assert unsure.alter(state, after).layout == after
    else:
        with pytest.raises(AmbiguousCall):
            unsure.alter(state, after)


def test_two_partitions_with_one_location_are_reported(table: MetastoreTable) -> None:
    catalog = table._catalog
    table.add_hour(HOUR)
    table.add_hour(HOUR + HOUR_S)
    names = catalog.partition_names("db", "flat")
    first, second = catalog.get_partitions("db", "flat", names)
    second.sd.location = f"{first.sd.location}/"
    catalog.replace_partition(second)
    with pytest.raises(Inconsistent, match="share a location"):
        table.partitions()


def test_a_partition_that_does_not_name_an_hour_is_reported(table: MetastoreTable) -> None:
    table.add_hour(HOUR)
    catalog = table._catalog
    (stranger,) = catalog.get_partitions("db", "flat", catalog.partition_names("db", "flat"))
    stranger.values = ["2016-04-18", "__HIVE_DEFAULT_PARTITION__"]
    catalog.add_partition(stranger)
    with pytest.raises(BadPartitionValue):
        table.hours()


def test_a_table_altered_by_hand_is_reported(table: MetastoreTable) -> None:
    catalog = table._catalog
    stored = catalog.get_table("db", "flat")
    assert stored.sd.cols is not None
    stored.sd.cols[1].comment = "my column"
    catalog.replace_table(stored, key="tideline.schema_version", expected="1")
    with pytest.raises(FlatTableAltered):
        table.read()


def test_parameters_of_an_earlier_build_are_read_and_then_renamed(table: MetastoreTable) -> None:
    catalog = table._catalog
    stored = catalog.get_table(table.database, table.name)
    stored.parameters = {
        **(stored.parameters or {}),
        "tideline.hardening": '{"slots": [1], "version": 1}',
        "tideline.hardened": "1",
    }
    catalog.replace_table(stored, key=VERSION, expected="1")
    state = table.read()
    assert (sorted(promoting_slots(state)), state.parameters[LAST_PROMOTION]) == ([1], "1")
    table.alter(state, parameters={LAST_PROMOTION: "2"})
    renamed = catalog.get_table(table.database, table.name).parameters or {}
    assert not {"tideline.hardening", "tideline.hardened"} & renamed.keys()
    assert (json.loads(renamed[PROMOTION])["slots"], renamed[LAST_PROMOTION]) == ([1], "2")
    assert promoting_slots(table.alter(table.read(), parameters={PROMOTION: None})) == frozenset()


def test_an_unreadable_lease_does_not_exclude_others(table: MetastoreTable) -> None:
    table.alter(table.read(), parameters={WRITER: "{"})
    assert WriterLease(table, "me").hold().version == 3


def test_a_lease_that_was_never_acquired_is_not_held(table: MetastoreTable) -> None:
    with pytest.raises(StateLocked):
        WriterLease(table, "me").check(table.read())


def test_a_lease_acquired_by_another_writer_at_the_same_moment_is_a_conflict(
    table: MetastoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = table.read()
    WriterLease(table, "other").hold()
    monkeypatch.setattr(table, "read", lambda: before)
    with pytest.raises(Conflict):
        WriterLease(table, "me").hold()


@pytest.mark.parametrize("text", [None, "", "[]", "1", '{"holder": "x"}', '{"holder": "x", "until": "y"}'])
def test_invalid_lease_texts_count_as_no_lease(text: str | None) -> None:
    assert LeaseRecord.parse(text) is None


def test_a_view_shows_all_columns_and_the_old_names(table: MetastoreTable) -> None:
    old = {
        "foo/bar/baz": locate_collapsed(
            KeyPath.of_dotted("foo.bar.baz"), KeyPath.of_dotted("foo.bar"), "foo/bar"
        ),
        "cost": OldName("price"),
    }
    assert build_query("db", "flat", table.read(), old) == (
        "SELECT `_rescued`, `foo/bar`, `price`, `yyyy_mm_dd`, `hh`, "
        "get_json_object(`foo/bar`, '$.baz') AS `foo/bar/baz`, `price` AS `cost` FROM `db`.`flat`"
    )


@pytest.mark.parametrize("member", ["a.b", "a'b", "ü", "a$b", "a[0]"])
def test_a_path_that_hive_would_misread_is_refused(member: str) -> None:
    with pytest.raises(BadInput):
        OldName("foo/bar", KeyPath((member,)))


@pytest.mark.parametrize("name", ["hh", "PRICE"])
def test_an_old_name_that_is_not_a_valid_column_name_is_refused(table: MetastoreTable, name: str) -> None:
    with pytest.raises(BadInput):
        build_query("db", "flat", table.read(), {name: OldName("foo/bar")})


def test_a_collapsed_key_is_shown_from_its_old_column_and_from_its_parent(table: MetastoreTable) -> None:
    layout = with_keys(next_version(LAYOUT), {"foo.bar.baz": ColumnType.INT, "alone": ColumnType.INT})
    empty = [replace(slot, state=SlotState.EMPTY) for slot in layout.slots[3:]]
    layout = replace(layout, slots=(*layout.slots[:3], *empty))
    assert set(find_collapsed_names(layout)) == {"foo/bar/baz"}
    state = table.alter(table.read(), layout)
    view = compatibility_view(table, "compat")
    assert view.refresh(state)
    assert not view.refresh(state)
    query = table._catalog.get_table("db", "compat").viewExpandedText
    assert query is not None
    text = "coalesce(cast(`foo/bar/baz` AS string), get_json_object(`foo/bar`, '$.baz')) AS `foo/bar/baz`"
    assert text in query
    state = table.alter(state, rekeyed(next_version(layout), 3, "other"), proven=[3])
    assert view.refresh(state)
    query = table._catalog.get_table("db", "compat").viewExpandedText
    assert query is not None
    assert "`hh`, get_json_object(`foo/bar`, '$.baz') AS `foo/bar/baz` FROM" in query


def test_a_view_is_written_only_when_something_changed(table: MetastoreTable) -> None:
    view = compatibility_view(table, "compat")
    old = {"cost": OldName("price"), "gone": OldName("nowhere")}
    assert view.write(table.read(), old)
    assert view.old_names() == {"cost": OldName("price")}
    assert not view.write(table.read(), old)
    state = table.alter(table.read(), with_keys(next_version(LAYOUT), {"more": ColumnType.STRING}))
    assert view.write(state, view.old_names())
    assert view.write(state, {})
    assert view.old_names() == {}


def test_a_view_never_replaces_another_table(table: MetastoreTable) -> None:
    with pytest.raises(InvalidRequest, match="another table has"):
        compatibility_view(table, "flat").write(table.read(), {})


def test_invalid_old_names_are_reported(table: MetastoreTable) -> None:
    view = compatibility_view(table, "compat")
    view.write(table.read(), {"cost": OldName("price")})
    stored = table._catalog.get_table("db", "compat")
    assert stored.parameters is not None
    stored.parameters[OLD_NAME + "cost"] = "[]"
    table._catalog.replace_table(stored, key="tideline.schema_version", expected="1")
    with pytest.raises(FlatTableAltered):
        view.old_names()


def test_directories_exist_before_the_metastore_gets_them(tmp_path: Path) -> None:
    catalog = SeesDirectories()
    table = MetastoreTable(catalog, "db", "flat", LocalStorage())
    table.create(LAYOUT, location=parse_location(str(tmp_path / "new" / "flat")), columns=HourColumns())
    table.add_hour(HOUR)
    assert catalog.seen == [True, True], "a metastore would make them as its own user"
