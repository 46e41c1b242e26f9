"""The index over every store (HBase with a fake connection): changes, tables that come and go, and a check
that detects damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.errors import BadPartitionValue, NotFound, StateCorrupt
from state.partitions.index import records
from state.partitions.index.index_change import IndexChange
from state.partitions.index.partition_index import IndexSnapshot, PartitionIndex
from state.store import Store
from state.store.memory import MemoryStore
from state.store.sqlite import SqliteStore
from tests.builders.partitions.indexed_tables import TABLE, an_index
from tests.builders.stores.fake_hbase import FakeHBase


COLUMNS = [("ds", "string"), ("hr", "int")]
ROWS = [("a", "5"), ("a", "05"), ("b", "6"), ("b", "abc"), ("b", "__HIVE_DEFAULT_PARTITION__")]


STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "sqlite": lambda path: SqliteStore(path / "index.db", schema_version=1),
    "hbase": lambda _: FakeHBase().store(),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = STORES[request.param](tmp_path)
    yield made
    made.check()
    made.close()


def changed(index: PartitionIndex, store: Store, *calls: Callable[[IndexChange], object]) -> None:
    with store.transaction() as txn:
        change = index.change(txn)
        for call in calls:
            call(change)
    change.publish()
    index.check()


def sweep_all(store: Store) -> list[bool]:
    """Remove what was forgotten, one key in each transaction."""
    found = [True]
    while found[-1]:
        with store.transaction() as txn:
            found.append(records.NUMBERS.sweep(txn, 1))
    return found


def names(index: PartitionIndex, text: str = "", table: str = TABLE) -> list[str]:
    return index.names(index.prepare(table, text))


def test_two_partitions_with_the_same_number_are_both_found_and_dropped_separately(store: Store) -> None:
    index = an_index(COLUMNS, ROWS, store)
    index.check()
    assert names(index, "hr = 5") == ["ds=a/hr=05", "ds=a/hr=5"]
    assert names(index, "ds = 'a' and hr = 5") == ["ds=a/hr=05", "ds=a/hr=5"]
    changed(index, store, lambda change: change.drop(TABLE, ("a", "05")))
    assert names(index, "hr = 5") == ["ds=a/hr=5"]


def test_unconvertible_texts_and_null_are_distinct_and_found_without_a_filter(store: Store) -> None:
    index = an_index(COLUMNS, ROWS, store)
    assert len(names(index)) == 5
    assert names(index, "hr != 5") == ["ds=b/hr=6"]
    assert names(index, "hr = '__HIVE_DEFAULT_PARTITION__'") == ["ds=b/hr=__HIVE_DEFAULT_PARTITION__"]
    assert "ds=b/hr=abc" in names(index, "hr != '__HIVE_DEFAULT_PARTITION__'")


def test_repeated_changes_change_nothing_and_an_altered_partition_has_its_new_payload(store: Store) -> None:
    index = an_index(COLUMNS, ROWS, store)
    changed(
        index,
        store,
        lambda change: change.add(TABLE, ROWS[0], b"one"),
        lambda change: change.alter(TABLE, ROWS[0], b"two"),
        lambda change: change.drop(TABLE, ("never", "1")),
        lambda change: change.follow(TABLE, COLUMNS),
    )
    found = index.partitions(index.prepare(TABLE, "ds = 'a' and hr = 5"))
    assert [one.payload for one in found] == [b"a|05", b"two"]
    assert len(names(index)) == 5


def test_a_renamed_partition_is_found_under_its_new_values_only(store: Store) -> None:
    index = an_index(COLUMNS, ROWS, store)
    changed(index, store, lambda change: change.rename_partition(TABLE, ("b", "6"), ("c", "7"), b"x"))
    assert names(index, "hr = 6") == []
    assert names(index, "hr = 7") == ["ds=c/hr=7"]


def test_a_renamed_table_keeps_its_partitions_and_replaces_a_table_with_the_new_name(store: Store) -> None:
    index = an_index(COLUMNS, ROWS, store)
    changed(
        index,
        store,
        lambda change: change.follow("sales.new", [("x", "int")]),
        lambda change: change.add("sales.new", ["1"]),
    )
    changed(index, store, lambda change: change.rename(TABLE, "sales.new"))
    assert index.tables() == ["sales.new"]
    assert len(names(index, "", "sales.new")) == 5
    with pytest.raises(NotFound):
        index.columns(TABLE)


def test_a_forgotten_table_leaves_nothing_in_the_store(store: Store) -> None:
    index = an_index(COLUMNS, ROWS, store)
    changed(index, store, lambda change: change.forget(TABLE), lambda change: change.forget("no.table"))
    assert index.tables() == []
    assert len(sweep_all(store)) > len(ROWS), "one key at a time"
    assert [key for key, _ in store.scan(b"px/", None)] == [b"px/n"]


def test_changed_columns_empty_the_table_and_earlier_plans_are_not_used(store: Store) -> None:
    index = an_index(COLUMNS, ROWS, store)
    assert len(names(index, "ds > '5'")) == 5
    changed(index, store, lambda change: change.follow(TABLE, [("ds", "int"), ("hr", "int")]))
    changed(index, store, lambda change: change.load(TABLE, [(("6", "1"), b""), (("4", "1"), b"")]))
    assert names(index, "ds > 5") == ["ds=6/hr=1"]


def test_a_failed_transaction_leaves_the_index_unchanged(store: Store) -> None:
    index = an_index(COLUMNS, ROWS, store)

    def broken(change: IndexChange) -> None:
        change.forget(TABLE)
        change.follow("other.table", COLUMNS)
        change.add("other.table", ["too few"])

    with pytest.raises(BadPartitionValue):
        changed(index, store, broken)
    index.check()
    assert len(names(index)) == 5


def test_a_reopened_index_gives_the_same_answers(store: Store) -> None:
    index = an_index(COLUMNS, ROWS, store)
    again = PartitionIndex(store)
    again.check()
    assert names(again, "hr = 5") == names(index, "hr = 5")
    assert again.columns(TABLE) == index.columns(TABLE)


def test_a_change_requires_an_indexed_table(store: Store) -> None:
    index = an_index(COLUMNS, ROWS, store)
    with store.transaction() as txn:
        change = index.change(txn)
        assert change.follows(TABLE)
        assert not change.follows("no.table")
        with pytest.raises(NotFound):
            change.add("no.table", ["1"])


def test_a_snapshot_answers_for_indexed_tables_and_refuses_others(store: Store) -> None:
    index = an_index(COLUMNS, ROWS, store)
    budget = index.budget()
    snapshot = IndexSnapshot(index, store, budget)
    assert snapshot.budget() is budget
    for _ in range(2):
        assert snapshot.table(TABLE).number == index.table(TABLE).number
    assert names(snapshot, "ds = 'b'") == names(index, "ds = 'b'")
    with pytest.raises(NotFound):
        snapshot.table("no.table")


@pytest.mark.parametrize("damage", ["posting", "stray-posting", "row", "value", "number"])
def test_a_check_detects_damage_that_no_change_can_cause(damage: str) -> None:
    store = MemoryStore()
    index = an_index(COLUMNS, ROWS, store)
    table = index.table(TABLE)
    row, _ = next(store.scan(table.rows, None))
    posting, _ = next(store.scan(table.postings(1), None))
    with store.transaction() as txn:
        if damage == "posting":
            txn.delete(posting)
        elif damage == "stray-posting":
            txn.put(posting[:-1], b"")
        elif damage == "row":
            txn.put(row, b'["z","1"]\n')
        elif damage == "value":
            txn.put(row, b'["a","5"]')
        else:
            txn.put(b"px/p/" + (99).to_bytes(8) + b"x", b"")
    with pytest.raises((AssertionError, StateCorrupt)):
        index.check()


@pytest.mark.parametrize("value", [b"no json", b"{}", b'{"number":1,"columns":3,"default":""}'])
def test_a_malformed_record_is_corrupt_state(value: bytes) -> None:
    store = MemoryStore()
    with store.transaction() as txn:
        txn.put(b"px/t/sales.events", value)
    with pytest.raises(StateCorrupt):
        PartitionIndex(store)


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "drop", "alter"]), st.sampled_from(ROWS), st.binary(max_size=3)),
    max_size=30,
)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_any_changes_leave_the_content_of_a_dictionary(
    steps: list[tuple[str, tuple[str, str], bytes]],
) -> None:
    store = MemoryStore()
    model: dict[tuple[str, ...], bytes] = {}
    index = an_index(COLUMNS, [], store)
    for call, values, payload in steps:
        with store.transaction() as txn:
            change = index.change(txn)
            if call == "drop":
                change.drop(TABLE, values)
                model.pop(values, None)
            else:
                change.add(TABLE, values, payload)
                model[values] = payload
        change.publish()
        index.check()
    found = index.partitions(index.prepare(TABLE, ""))
    assert {one.values: one.payload for one in found} == model


VERSIONED = st.lists(
    st.tuples(st.sampled_from(["add", "drop", "alter", "nothing"]), st.sampled_from(ROWS)), max_size=20
)


@given(calls=VERSIONED)
@settings(max_examples=50, deadline=None)
def test_rows_of_one_version_are_the_same_and_other_tables_keep_theirs(
    calls: list[tuple[str, tuple[str, str]]],
) -> None:
    store = MemoryStore()
    index = PartitionIndex(store)
    changed(index, store, *(partial(_follow, table) for table in ("db.a", "db.b")))
    other, seen = index.version("db.b"), dict[bytes, list[tuple[bytes, bytes]]]()
    for number, (name, values) in enumerate(calls):
        if name == "nothing":
            changed(index, store)
        else:
            arguments = () if name == "drop" else (b"%d" % number,)
            # B023: called at once
            changed(index, store, lambda change: getattr(change, name)("db.a", values, *arguments))  # noqa: B023
        version = index.version("db.a")
        assert version is not None
        assert seen.setdefault(version, rows := list(store.scan(b"px/p/", b"px/p0"))) == rows
    assert index.version("db.b") == other


def _follow(table: str, change: IndexChange) -> None:
    change.follow(table, COLUMNS)


def test_tables_of_a_file_without_versions_get_them_by_migration() -> None:
    store = MemoryStore()
    index = PartitionIndex(store)
    changed(index, store, partial(_follow, "db.a"))
    with store.transaction() as txn:
        txn.delete_range(records.VERSIONS, None)
    assert index.version("db.a") is None
    with store.transaction() as txn:
        records.draw_versions(txn)
    assert index.version("db.a") is not None
    index.check()


def test_a_version_is_not_given_again_to_rows_that_are_written_again() -> None:
    versions = set()
    for _ in range(3):
        store = MemoryStore()
        index = PartitionIndex(store)
        changed(index, store, partial(_follow, "db.a"), lambda change: change.add("db.a", ROWS[0]))
        versions.add(index.version("db.a"))
    assert len(versions) == 3
