"""The store on HBase beyond the port: transactions interrupted anywhere, long ones, and readers at the same
time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handlers.hbase import layout
from handlers.hbase.store import HBaseStore
from state.errors import HBaseUnavailable, LimitExceeded, StateCorrupt
from state.partitions.index.index_change import IndexChange
from state.partitions.index.partition_index import PartitionIndex
from state.partitions.index.records import DICTIONARIES, VERSIONS, EntryKind, kind_of
from state.store import Store, get_many
from state.store.memory import MemoryStore
from tests.builders.partitions.indexed_tables import TABLE, an_index
from tests.builders.stores.fake_hbase import FakeHBase


COLUMNS = [("ds", "string"), ("hr", "int"), ("region", "string")]
BEFORE = [("a", "1", "x"), ("a", "2", "x"), ("b", "1", "y"), ("c", "3", "y")]


def names(index: PartitionIndex, text: str, table: str = TABLE) -> list[str]:
    return index.names(index.prepare(table, text))


def changed(store: HBaseStore, *calls: Callable[[IndexChange], object]) -> None:
    index = PartitionIndex(store)
    with store.transaction() as txn:
        change = index.change(txn)
        for call in calls:
            call(change)
    change.publish()


def everything(change: IndexChange) -> None:
    """Every kind of change in one transaction."""
    change.drop(TABLE, BEFORE[0])
    change.add(TABLE, ("d", "4", "z"), b"new")
    change.rename_partition(TABLE, BEFORE[1], ("e", "2", "x"), b"moved")
    change.rename(TABLE, "sales.renamed")
    change.follow(TABLE, COLUMNS)
    change.add(TABLE, ("n", "9", "n"))
    change.rename("sales.renamed", "sales.again")


def content(store: HBaseStore) -> dict[bytes, bytes]:
    return dict(store.scan(b"", None))


def test_a_transaction_interrupted_after_any_message_is_complete_when_the_store_is_opened_again() -> None:
    outcomes = set()
    for failing in range(40):
        server = FakeHBase()
        store = server.store()
        an_index(COLUMNS, BEFORE, store)
        before = content(store)
        beside = PartitionIndex(server.store())
        server.failures = [*[None] * failing, *[ConnectionError("gone")] * 2]
        with suppress(HBaseUnavailable):
            changed(store, everything)
        got_through = bool(server.failures)
        server.failures = []
        # who looks on meanwhile: whatever is there, postings and rows give the same answers
        assert names(beside, "hr = 1") == [name for name in names(beside, "") if "hr=1/" in name]
        again = server.store()
        index = PartitionIndex(again)
        index.check()
        again.check()
        after = content(again)
        if after == before:
            outcomes.add("before")
        else:
            outcomes.add("after")
            assert index.tables() == ["sales.again", TABLE]
            assert len(names(index, "", "sales.again")) == 4
            assert names(index, "") == ["ds=n/hr=9/region=n"]
        if got_through:
            break
    else:
        pytest.fail("the transaction never got through")
    assert outcomes == {"before", "after"}


def test_the_next_transaction_first_finishes_an_interrupted_one() -> None:
    server = FakeHBase()
    store = server.store()
    an_index(COLUMNS, BEFORE, store)
    server.failures = [*[None] * 3, *[ConnectionError("gone")] * 2]
    with pytest.raises(HBaseUnavailable):
        changed(store, lambda change: change.drop(TABLE, BEFORE[0]))
    server.failures = []
    changed(store, lambda change: change.drop(TABLE, BEFORE[1]))
    assert store.counts["ended"] == 1
    PartitionIndex(store).check()
    assert len(names(PartitionIndex(store), "")) == 2


def test_a_redo_row_that_cannot_be_read_is_corrupt_state() -> None:
    server = FakeHBase()
    server.gateway().put({layout.WRITES_ROW: {b"p:0": b"\x00" * 8 + b"?"}}, 1)
    with pytest.raises(StateCorrupt):
        server.store()


def test_writes_of_a_transaction_are_newer_than_all_earlier_ones_of_any_process() -> None:
    server = FakeHBase()
    one, other = server.store(), server.store()
    for value in (b"1", b"2", b"3"):
        with one.transaction() as txn:
            txn.put(b"k", value)
        assert other.get(b"k") == value
        with other.transaction() as txn:
            txn.delete(b"k")
        assert one.get(b"k") is None


def test_a_transaction_that_writes_nothing_sends_nothing() -> None:
    server = FakeHBase()
    store = server.store()
    before = server.messages
    with store.transaction():
        pass
    assert server.messages == before


def test_deleting_a_range_reads_nothing() -> None:
    server = FakeHBase()
    store = server.store()
    an_index(COLUMNS, BEFORE, store)
    with store.transaction() as txn:
        txn.put(b"own", b"1")
        before = server.messages
        txn.delete_range(b"", None)
        assert server.messages <= before + 1, "one to draw versions"
        assert get_many(txn, [b"own", b"other"]) == [None, None]
    assert content(store) == {}


def test_a_piece_of_a_load_reads_its_partitions_by_one_message() -> None:
    server = FakeHBase()
    store = server.store()
    an_index(COLUMNS, BEFORE, store)
    index = PartitionIndex(store)
    values = [("a", str(number), "x") for number in range(200)]
    with store.transaction() as txn:
        change = index.change(txn)
        change.add(TABLE, ("a", "7", "x"), b"own")
        change.drop(TABLE, ("a", "2", "x"))
        before = server.messages
        found = change.payloads(TABLE, values)
        assert server.messages == before + 1
    known = {number for number, payload in enumerate(found) if payload is not None}
    assert known == {1, 7}, "the stored one, without the dropped one, and the own one"


@pytest.fixture
def _short_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handlers.hbase.transaction.SPILL_ENTRIES", 7)


@pytest.mark.usefixtures("_short_buffer")
def test_a_table_that_is_reloaded_is_never_empty_in_between() -> None:
    server = FakeHBase()
    an_index(COLUMNS, BEFORE, server.store())
    beside, seen = PartitionIndex(server.store()), []

    def listing() -> Iterator[tuple[tuple[str, ...], bytes]]:
        for number in range(20):
            seen.append(len(names(beside, "")))
            yield ("a", str(number), "x"), b""

    changed(server.store(), lambda change: change.load(TABLE, listing()))
    assert min(seen) == 4
    assert max(seen) > 4
    index = PartitionIndex(server.store())
    index.check()
    assert len(names(index, "")) == 20


OTHER = "other.table"


def long_change(change: IndexChange) -> None:
    """Additions, replacements and removals, of which most are written before the commit; some rows are
    written twice."""
    change.follow(OTHER, COLUMNS)
    for number in range(9):
        change.add(OTHER, (str(number), "1", "x"), b"new")
        change.add(TABLE, ("a", str(number), "x"), b"replaced")
    for values in BEFORE[1:]:
        change.drop(TABLE, values)
    change.load(OTHER, [((str(number), "2", "x"), b"listed") for number in range(9)])
    change.add(TABLE, BEFORE[1], b"again")


def rows_and_tables(store: HBaseStore) -> dict[bytes, bytes]:
    """Everything but the last table number, which a failed transaction may have drawn."""
    return {key: value for key, value in content(store).items() if kind_of(key) is not EntryKind.BASIS}


@pytest.mark.usefixtures("_short_buffer")
def test_a_failed_long_transaction_is_rolled_back_before_the_next_one_begins() -> None:
    server = FakeHBase()
    store = server.store()
    an_index(COLUMNS, BEFORE, store)
    before = rows_and_tables(store)

    def broken(change: IndexChange) -> None:
        long_change(change)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        changed(store, broken)
    assert rows_and_tables(store) != before, "written early"
    with store.transaction():
        assert rows_and_tables(server.store()) == before
    assert store.counts["rolled-back"] == 1
    PartitionIndex(store).check()


@pytest.mark.usefixtures("_short_buffer")
def test_a_long_transaction_interrupted_after_any_message_takes_effect_as_a_whole_or_not_at_all() -> None:
    outcomes = set()
    for failing in range(200):
        server = FakeHBase()
        store = server.store()
        an_index(COLUMNS, BEFORE, store)
        before = rows_and_tables(store)
        server.failures = [*[None] * failing, *[ConnectionError("gone")] * 2]
        with suppress(HBaseUnavailable):
            changed(store, long_change)
        got_through = bool(server.failures)
        server.failures = []
        again = server.store() if failing % 2 else store
        server.failures = [*[None] * (failing % 13), *[ConnectionError("gone")] * 2]
        with suppress(HBaseUnavailable), again.transaction():
            pass  # rolling back is interrupted, too
        server.failures = []
        with again.transaction():
            pass
        PartitionIndex(again).check()
        again.check()
        after = rows_and_tables(again)
        outcomes.add(after == before)
        if after != before:
            assert PartitionIndex(again).tables() == sorted([OTHER, TABLE])
            assert len(names(PartitionIndex(again), "", OTHER)) == 9
            assert len(names(PartitionIndex(again), "")) == 9
        if got_through:
            break
    else:
        pytest.fail("the transaction never got through")
    assert outcomes == {True, False}


@pytest.mark.usefixtures("_short_buffer")
def test_opening_a_store_does_not_roll_back_the_running_writer() -> None:
    server = FakeHBase()
    store = server.store()
    an_index(COLUMNS, BEFORE, store)
    index = PartitionIndex(store)
    with store.transaction() as txn:
        change = index.change(txn)
        long_change(change)
        server.store()
    change.publish()
    index.check()
    assert len(names(index, "", OTHER)) == 9


@pytest.mark.usefixtures("_short_buffer")
def test_a_transaction_that_another_writer_has_rolled_back_is_not_committed() -> None:
    server = FakeHBase()
    store = server.store()
    an_index(COLUMNS, BEFORE, store)
    before = rows_and_tables(store)

    def overtaken(change: IndexChange) -> None:
        long_change(change)
        with server.store().transaction():
            pass

    with pytest.raises(HBaseUnavailable):
        changed(store, overtaken)
    with store.transaction():
        pass
    assert rows_and_tables(store) == before


@pytest.mark.usefixtures("_short_buffer")
def test_a_long_transaction_writes_what_payloads_refer_to_before_the_rows() -> None:
    server = FakeHBase()
    store = server.store()
    index = an_index(COLUMNS, BEFORE, store)
    with store.transaction() as txn:
        txn.put(DICTIONARIES + b"1", b"typical")
        index.change(txn).load(TABLE, [((str(number), "1", "x"), b"1") for number in range(9)])
        assert server.store().get(DICTIONARIES + b"1") == b"typical"


def test_postings_without_rows_are_dropped_and_counted() -> None:
    server = FakeHBase()
    store = server.store()
    index = an_index(COLUMNS, BEFORE, store)
    table = index.table(TABLE)
    row = next(store.scan_keys(table.rows, None))
    with store.transaction() as txn:
        txn.delete(row)
    assert names(index, "hr = 1") == ["ds=b/hr=1/region=y"]
    assert [each.name for each in index.partitions(index.prepare(TABLE, "hr = 1"))] == ["ds=b/hr=1/region=y"]
    assert index.counts["postings-dropped"] == 2


def test_values_that_are_too_large_for_hbase_are_refused_before_they_are_sent() -> None:
    store = FakeHBase().store()
    with pytest.raises(LimitExceeded), store.transaction() as txn:
        txn.put(b"k", b"x" * ((8 << 20) + 1))
    assert store.get(b"k") is None


def test_the_existence_of_rows_is_checked_without_fetching_payloads() -> None:
    store = FakeHBase().store()
    index = an_index(COLUMNS, BEFORE, store)
    rows = list(store.scan_keys(index.table(TABLE).rows, None))
    assert store.existing([*rows, b"never"]) == set(rows)
    assert store.get_many([rows[1], b"never"]) == [store.get(rows[1]), None]


@given(st.lists(st.tuples(st.sampled_from(BEFORE), st.booleans()), max_size=12), st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_transactions_of_any_length_leave_the_content_of_a_dictionary(
    steps: list[tuple[tuple[str, ...], bool]], spill: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handlers.hbase.transaction.SPILL_ENTRIES", spill)
        store = FakeHBase().store()
        model: set[tuple[str, ...]] = set()
        index = an_index(COLUMNS, [], store)
        with store.transaction() as txn:
            change = index.change(txn)
            for values, is_added in steps:
                (change.add if is_added else change.drop)(TABLE, values)
                (model.add if is_added else model.discard)(values)
        change.publish()
        index.check()
        store.check()
        assert {each.values for each in index.partitions(index.prepare(TABLE, ""))} == model


TABLES = ["a.one", "a.two"]
CALLS = st.one_of(
    st.tuples(st.sampled_from(["add", "drop"]), st.sampled_from(TABLES), st.sampled_from(BEFORE)),
    st.tuples(st.just("load"), st.sampled_from(TABLES), st.lists(st.sampled_from(BEFORE), unique=True)),
    st.tuples(st.sampled_from(["follow", "forget", "rename"]), st.sampled_from(TABLES), st.none()),
)


def call(change: IndexChange, name: str, table: str, argument: Any) -> None:
    if name == "follow":
        change.follow(table, COLUMNS)
    elif name == "forget":
        change.forget(table)
    elif name == "rename":
        change.rename(table, TABLES[1 - TABLES.index(table)])
    elif not change.follows(table):
        return
    elif name == "load":
        change.load(table, [(values, b"loaded") for values in argument])
    else:
        getattr(change, name)(table, argument)


@given(st.lists(st.lists(CALLS, max_size=12), max_size=4), st.integers(1, 30))
@settings(max_examples=80, deadline=None)
def test_any_changes_in_any_pieces_leave_the_same_content_as_in_memory(
    transactions: list[list[tuple[str, str, Any]]], spill: int
) -> None:
    server, memory = FakeHBase(), MemoryStore()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handlers.hbase.transaction.SPILL_ENTRIES", spill)
        for calls in transactions:
            for store in (server.store(), memory):
                index = PartitionIndex(store)
                with store.transaction() as txn:
                    change = index.change(txn)
                    for each in calls:
                        call(change, *each)
                    seen = dict(txn.scan(b"", None))
                change.publish()
                index.check()
                assert seen == dict(store.scan(b"", None))
    local = {key: value for key, value in memory.scan(b"", None) if not key.startswith(VERSIONS)}
    assert dict(server.store().scan(b"", None)) == local


@given(
    st.lists(st.tuples(st.lists(CALLS, max_size=12), st.integers(0, 40)), max_size=4),
    st.integers(1, 10),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_any_changes_that_fail_anywhere_and_are_repeated_leave_the_same_content_as_in_memory(
    transactions: list[tuple[list[tuple[str, str, Any]], int]], spill: int, reopens: bool
) -> None:
    """Every transaction fails at some message, is rolled back or finished, and is repeated if it had not
    taken effect."""
    server, memory = FakeHBase(), MemoryStore()
    store = server.store()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handlers.hbase.transaction.SPILL_ENTRIES", spill)
        for number, (calls, failing) in enumerate(transactions):
            apply_calls(memory, calls, number)
            server.failures = [*[None] * failing, *[ConnectionError("gone")] * 2]
            with suppress(HBaseUnavailable):
                apply_calls(store, calls, number)
            server.failures = []
            store = server.store() if reopens else store
            with store.transaction() as txn:
                done = txn.get(b"mark") == b"%d" % number
            if not done:
                apply_calls(store, calls, number)
            assert contents_by_name(store) == contents_by_name(memory)
            PartitionIndex(store).check()


def apply_calls(store: Store, calls: list[tuple[str, str, Any]], number: int) -> None:
    index = PartitionIndex(store)
    with store.transaction() as txn:
        change = index.change(txn)
        for each in calls:
            call(change, *each)
        txn.put(b"mark", b"%d" % number)
    change.publish()


def contents_by_name(store: Store) -> dict[str, list[tuple[tuple[str, ...], bytes]]]:
    """Table numbers differ: a failed transaction may have drawn one."""
    index = PartitionIndex(store)
    return {
        name: [(one.values, one.payload) for one in index.partitions(index.prepare(name, ""))]
        for name in index.tables()
    }
