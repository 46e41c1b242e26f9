"""The contract of a flat table, on a Hive 4 metastore and on the metastore inside Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dev.fixtures.hive_tables import whole_number_statistics
from handlers.files.paths import Location
from handlers.metastore.client import Metastore
from state.columns.types import ColumnType
from state.errors import AlreadyExists, Conflict, InvalidRequest, LimitExceeded, NotFound, StateLocked
from streaming.table.catalog import HiveCatalog
from streaming.table.flat_table import TableState
from streaming.table.hours import HOUR_S, HourColumns
from streaming.table.lease import SKEW_S, WriterLease
from streaming.table.metastore_table import MetastoreTable
from streaming.table.parameters import LAYOUT_VERSION, STATISTICS, VERSION
from tests.builders.flat.layouts import HOUR, a_layout, next_version, rekeyed, retyped, with_keys


COLUMNS = {
    "action.name": ColumnType.STRING,
    "user.id": ColumnType.INT,
    "price": ColumnType.BIGINT,
    "old": ColumnType.STRING,
}

STALE = '{"type":"struct","fields":[]}'


@pytest.fixture(params=["hive", "spark"])
def flat(request: pytest.FixtureRequest) -> MetastoreTable:
    """A table that does not exist yet."""
    found: MetastoreTable = request.getfixturevalue(f"{request.param}_flat")
    return found


@pytest.fixture
def state(flat: MetastoreTable, external: Location) -> TableState:
    """The created table, with four keys."""
    return flat.create(a_layout(COLUMNS), location=external.child("events_flat"), columns=HourColumns())


def a_directory(state: TableState, hour: int, version: int, *files: str) -> Location:
    """A version directory of an hour with files of one byte."""
    place = state.columns.directory(state.location, hour).child(f"v{version}")
    Path(place.path).mkdir(parents=True, exist_ok=True)
    for name in files:
        Path(place.path, name).write_bytes(b"x")
    return place


def test_a_created_table_reads_as_the_layout_it_was_created_with(
    state: TableState, flat: MetastoreTable
) -> None:
    assert flat.read() == state
    assert state.layout == a_layout(COLUMNS)
    assert state.version == 1
    assert state.parameters[VERSION] == "1"
    assert state.columns == HourColumns()


def test_a_table_is_not_created_over_another(state: TableState, flat: MetastoreTable) -> None:
    with pytest.raises(AlreadyExists):
        flat.create(state.layout, location=state.location, columns=state.columns)


def test_a_missing_table_is_not_found(flat: MetastoreTable) -> None:
    with pytest.raises(NotFound):
        flat.read()


def test_slots_are_appended_and_widened_in_place(state: TableState, flat: MetastoreTable) -> None:
    layout = with_keys(next_version(state.layout), {"foo.bar": ColumnType.DOUBLE})
    layout = retyped(layout, 2, ColumnType.BIGINT)
    assert flat.alter(state, layout).layout == layout
    assert flat.read().layout == layout


def test_a_slot_takes_another_key_only_after_its_files_were_inspected(
    state: TableState, flat: MetastoreTable
) -> None:
    layout = rekeyed(next_version(state.layout), 4, "brand.new")
    with pytest.raises(InvalidRequest, match="another key"):
        flat.alter(state, layout)
    flat.alter(state, layout, proven={4})
    assert flat.read().layout == layout


def test_a_text_column_becomes_a_number_only_on_request(state: TableState, flat: MetastoreTable) -> None:
    layout = retyped(next_version(state.layout), 4, ColumnType.INT)
    with pytest.raises(InvalidRequest):
        flat.alter(state, layout, proven={4})
    flat.alter(state, layout, narrowed={4})
    assert flat.read().layout == layout
    stored = flat._catalog.get_table(flat.database, flat.name)
    (stored.sd.cols or [])[3].type = "tinyint"
    with pytest.raises(InvalidRequest):
        flat._catalog.replace_table(stored, key=VERSION, expected="2")


def test_a_number_becomes_text_only_after_its_files_were_rewritten(
    state: TableState, flat: MetastoreTable
) -> None:
    layout = retyped(next_version(state.layout), 3, ColumnType.STRING)
    with pytest.raises(InvalidRequest, match="rewritten"):
        flat.alter(state, layout)
    flat.alter(state, layout, proven={3})
    assert flat.read().layout == layout


def test_of_two_writers_with_one_version_the_second_gets_a_conflict(
    state: TableState, flat: MetastoreTable
) -> None:
    flat.alter(state, with_keys(next_version(state.layout), {"first": ColumnType.STRING}))
    with pytest.raises(Conflict):
        flat.alter(state, with_keys(next_version(state.layout), {"second": ColumnType.STRING}))
    assert [slot.name for slot in flat.read().layout.slots][-1] == "first"


def test_a_copy_that_is_stale_at_the_metastore_itself_is_refused(
    state: TableState, flat: MetastoreTable
) -> None:
    catalog = flat._catalog
    stale = catalog.get_table(flat.database, flat.name)
    flat.alter(state, parameters={"tideline.note": "won"})
    stale.parameters = {**(stale.parameters or {}), VERSION: "2", "tideline.note": "lost"}
    with pytest.raises(Conflict):
        catalog.replace_table(stale, key=VERSION, expected="1")
    assert flat.read().parameters["tideline.note"] == "won"


def test_an_hour_is_added_once_with_the_current_columns(state: TableState, flat: MetastoreTable) -> None:
    first = flat.add_hour(HOUR)
    flat.alter(state, with_keys(next_version(state.layout), {"later": ColumnType.STRING}))
    assert flat.add_hour(HOUR, version=7).location == first.location
    second = flat.add_hour(HOUR + HOUR_S)
    assert first.values == ("2016-04-18", "21")
    assert str(first.location).endswith("/yyyy_mm_dd=2016-04-18/hh=21/v1")
    columns = [each.columns[-1][0] for each in flat.partitions(with_columns=True)]
    assert columns == ["old", "later"]
    assert second.values == ("2016-04-18", "22")
    assert flat.hours() == [HOUR, HOUR + HOUR_S]


def test_an_hour_with_new_files_carries_no_statistics_that_they_would_belie(
    state: TableState, flat: MetastoreTable
) -> None:
    a_directory(state, HOUR, 1, "a.orc")
    flat.add_hour(HOUR, parameters={"tideline.rows": "5"})
    assert set(flat.set_hour_parameters(HOUR, {"tideline.rows": "6"}).parameters).isdisjoint(STATISTICS)
    found = flat.partitions([HOUR])[0].parameters
    assert found["tideline.rows"] == "6"
    assert set(found).isdisjoint(STATISTICS)


def test_a_switch_changes_location_parameters_and_columns_at_once(
    state: TableState, flat: MetastoreTable
) -> None:
    flat.add_hour(HOUR, parameters={"tideline.rows": "1", "tideline.batches": "3"})
    flat.alter(state, with_keys(next_version(state.layout), {"later": ColumnType.STRING}))
    place = a_directory(state, HOUR, 2, "s-0.orc")
    flat.switch_hour(HOUR, place, {"tideline.sealed": "true", "tideline.batches": None})
    (found,) = flat.partitions([HOUR], with_columns=True)
    assert found.location == place
    assert found.parameters["tideline.sealed"] == "true"
    assert "tideline.batches" not in found.parameters
    assert found.parameters[LAYOUT_VERSION] == "2"
    assert [name for name, _ in found.columns][-1] == "later"
    assert set(found.parameters).isdisjoint(STATISTICS)


@pytest.mark.parametrize("files", [(), ("_SUCCESS",)])
def test_a_switch_to_a_directory_without_files_is_refused(
    state: TableState, flat: MetastoreTable, files: tuple[str, ...]
) -> None:
    flat.add_hour(HOUR)
    with pytest.raises(InvalidRequest):
        flat.switch_hour(HOUR, a_directory(state, HOUR, 2, *files), {})


def test_a_switch_to_nested_files_is_refused(state: TableState, flat: MetastoreTable) -> None:
    flat.add_hour(HOUR)
    place = a_directory(state, HOUR, 2, "s-0.orc")
    Path(place.path, "part=1").mkdir()
    with pytest.raises(InvalidRequest):
        flat.switch_hour(HOUR, place, {})


def test_an_hour_is_never_pointed_to_the_directory_of_another(
    state: TableState, flat: MetastoreTable
) -> None:
    flat.add_hour(HOUR)
    flat.add_hour(HOUR + HOUR_S)
    with pytest.raises(InvalidRequest, match="own directory"):
        flat.switch_hour(HOUR, a_directory(state, HOUR + HOUR_S, 1, "a.orc"), {})


def test_hours_are_dropped_without_their_files(state: TableState, flat: MetastoreTable) -> None:
    place = a_directory(state, HOUR, 1, "a.orc")
    flat.add_hour(HOUR)
    flat.add_hour(HOUR + HOUR_S)
    flat.drop_hours([HOUR, HOUR - HOUR_S])
    assert flat.hours() == [HOUR + HOUR_S]
    assert Path(place.path, "a.orc").exists()


def test_texts_too_long_for_a_metastore_are_refused_by_the_client(
    state: TableState, flat: MetastoreTable
) -> None:
    with pytest.raises(LimitExceeded):
        flat.alter(state, parameters={"tideline.x": "v" * 4_001})
    with pytest.raises(LimitExceeded):
        flat.alter(state, parameters={"tideline." + "k" * 250: "v"})
    with pytest.raises(InvalidRequest):
        flat.alter(state, parameters={"EXTERNAL": "FALSE"})


def test_a_lease_has_one_holder_until_it_expires(state: TableState, flat: MetastoreTable) -> None:
    now_s = [1_000.0]
    one = WriterLease(flat, "one", duration_s=200, clock=lambda: now_s[0])
    other = WriterLease(flat, "other", duration_s=200, clock=lambda: now_s[0])
    held = one.hold()
    assert one.hold() == held
    with pytest.raises(StateLocked):
        other.hold()
    now_s[0] += 150
    one.check(one.hold())
    now_s[0] += 200 + SKEW_S + 1
    other.check(other.hold())
    with pytest.raises(StateLocked):
        one.hold()


def test_foreign_parameters_are_kept_and_stale_schema_copies_removed(
    state: TableState, flat: MetastoreTable
) -> None:
    catalog = flat._catalog
    table = catalog.get_table(flat.database, flat.name)
    extra = {"owner.of": "people", "spark.sql.sources.schema": STALE, VERSION: "2"}
    table.parameters = {**(table.parameters or {}), **extra}
    catalog.replace_table(table, key=VERSION, expected="1")
    after = flat.alter(replace(state, layout=next_version(state.layout)), parameters={"tideline.a": "b"})
    found = flat.read().parameters
    assert after.version == 3
    assert found["owner.of"] == "people"
    assert "spark.sql.sources.schema" not in found


def test_of_many_writers_exactly_one_wins_each_version(state: TableState, flat: MetastoreTable) -> None:
    won: list[str] = []

    def work(name: str) -> None:
        with _rival(flat) as rival:
            for n in range(4):
                before = rival.read()
                layout = with_keys(next_version(before.layout), {f"{name}{n}": ColumnType.STRING})
                with suppress(Conflict):
                    rival.alter(before, layout)
                    won.append(f"{name}{n}")

    threads = [threading.Thread(target=work, args=(f"w{number}_",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = flat.read()
    assert won
    assert after.version == 1 + len(won)
    assert {slot.name for slot in after.layout.slots[5:]} == set(won)


@contextmanager
def _rival(flat: MetastoreTable) -> Iterator[MetastoreTable]:
    """The same table for another thread, over its own connection if there are connections."""
    catalog = flat._catalog
    if not isinstance(catalog, HiveCatalog):
        yield flat
        return
    client = catalog._metastore.clone()
    yield MetastoreTable(HiveCatalog(client), flat.database, flat.name, flat._storage)
    client.close()


def test_a_switch_removes_column_statistics_of_the_old_files(
    metastore: Metastore, hive_flat: MetastoreTable, external: Location, database: str
) -> None:
    state = hive_flat.create(a_layout(COLUMNS), location=external.child("t"), columns=HourColumns())
    hive_flat.add_hour(HOUR)
    name = state.columns.partition_name(HOUR)
    statistics = whole_number_statistics(database, hive_flat.name, "user/id", 5, partition_name=name)
    metastore.update_partition_statistics(statistics)
    assert metastore.partition_statistics(database, hive_flat.name, [name], ["user/id"])
    hive_flat.switch_hour(HOUR, a_directory(state, HOUR, 2, "s-0.orc"), {})
    assert not metastore.partition_statistics(database, hive_flat.name, [name], ["user/id"])
