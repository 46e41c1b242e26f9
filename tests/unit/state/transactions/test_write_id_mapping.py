"""The write-id mapping, event by event."""

from __future__ import annotations

import pytest

from state.errors import BadInput, LimitExceeded, StateCorrupt, TargetDiverged
from state.store import prefix_end
from state.store.memory import MemoryStore
from state.transactions import records
from state.transactions.open_transactions import (
    CONCURRENT_MAX,
    GONE,
    Allocation,
    OpenTxn,
    SourceTxn,
    Touched,
)
from state.transactions.records import (
    CONCURRENT,
    NAME_BYTES_MAX,
    TXN,
    encode_concurrent,
    encode_concurrent_key,
    encode_txn_key,
)
from state.transactions.valid_write_ids import ValidWriteIds
from state.transactions.write_id_mapping import WriteIdMapping


T, U = "sales.orders", "sales.lines"


def mapping_with(*allocations: tuple[int, str, int, int]) -> WriteIdMapping:
    mapping = WriteIdMapping()
    for txn_id, table, write_id, event_id in allocations:
        assert mapping.allocate(txn_id, table, write_id, event_id) is not None
    return mapping


def stored(mapping: WriteIdMapping, store: MemoryStore | None = None) -> WriteIdMapping:
    """Flush, and return the mapping loaded from the store."""
    store = store or MemoryStore()
    with store.transaction() as transaction:
        mapping.flush(transaction)
    loaded = WriteIdMapping()
    loaded.load(store)
    loaded.check()
    return loaded


def valid(mapping: WriteIdMapping, table: str = T) -> ValidWriteIds:
    ids = mapping.valid_write_ids(table)
    assert ids is not None
    return ids


def touched(mapping: WriteIdMapping, txn_id: int = 7) -> tuple[Touched, ...]:
    txn = mapping.get(txn_id)
    assert txn is not None
    return txn.touched


def test_a_transaction_is_remembered_from_its_first_write_id() -> None:
    mapping = WriteIdMapping()
    assert mapping.allocate(7, T, 1, 101) == Allocation(T, 1, 101)
    assert mapping.get(7) == SourceTxn(7, 101, (Allocation(T, 1, 101),))
    assert valid(mapping) == ValidWriteIds(T, 1, (1,))
    mapping.check()


def test_a_transaction_over_several_tables_keeps_them_in_event_order() -> None:
    mapping = mapping_with((7, U, 1, 101), (7, T, 4, 102))
    value = mapping.commit(7)
    assert value is not None
    assert value.allocations == (Allocation(U, 1, 101), Allocation(T, 4, 102))
    assert mapping.get(7) is None
    assert valid(mapping) == ValidWriteIds(T, 4)


def test_an_abort_ends_its_write_ids() -> None:
    mapping = mapping_with((7, T, 1, 101), (8, T, 2, 102))
    assert mapping.abort(7) is not None
    assert valid(mapping) == ValidWriteIds(T, 2, (2,))
    assert valid(stored(mapping)) == ValidWriteIds(T, 2, (2,))


def test_the_end_of_a_transaction_out_of_scope_changes_nothing() -> None:
    mapping = WriteIdMapping()
    assert mapping.commit(7) is None
    assert mapping.abort(7) is None
    assert mapping.valid_write_ids(T) is None


def test_write_ids_that_were_open_at_an_allocation_are_concurrent_with_it_until_its_end() -> None:
    mapping = mapping_with((7, T, 1, 101), (8, T, 2, 102), (9, U, 1, 103))
    mapping.commit(7)
    mapping.allocate(10, T, 3, 105)
    assert (mapping.find_concurrent(T, 2), mapping.find_concurrent(T, 3)) == ((1,), (2,))
    mapping.rename_table(T, "shop.renamed")
    assert mapping.find_concurrent("shop.renamed", 2) == (1,)
    mapping.commit(8)
    assert mapping.find_concurrent("shop.renamed", 2) == ()
    assert mapping.find_concurrent("shop.renamed", 3) == (2,)
    assert mapping.find_concurrent(U, 1) == ()
    assert mapping.find_concurrent("shop.unknown", 1) == ()


def test_the_newest_concurrent_write_ids_are_remembered_beyond_a_restart() -> None:
    newest = CONCURRENT_MAX + 3
    mapping = mapping_with(*((10 + number, T, number, 100 + number) for number in range(1, newest + 1)))
    assert mapping.find_concurrent(T, newest) == tuple(range(3, newest))
    again = stored(mapping)
    assert again.find_concurrent(T, newest) == tuple(range(3, newest))
    again.check()


def test_concurrent_write_ids_that_an_older_version_left_behind_are_ignored_and_removed() -> None:
    store = MemoryStore()
    left = OpenTxn(9, 103, 103, {T: Allocation(T, 1, 103)}, concurrent={T: (0,)})
    outdated = OpenTxn(8, 102, 102, {T: Allocation(T, 1, 102)}, concurrent={T: (0,)})
    with store.transaction() as transaction:
        mapping_with((7, T, 1, 101), (8, T, 2, 102)).flush(transaction)
        for txn in (left, outdated):
            transaction.put(encode_concurrent_key(txn.txn_id), encode_concurrent(txn))
    mapping = WriteIdMapping()
    mapping.load(store)
    assert mapping.find_concurrent(T, 2) == ()
    with store.transaction() as transaction:
        mapping.commit(8)
        mapping.flush(transaction)
    assert list(store.scan(CONCURRENT, prefix_end(CONCURRENT))) == []


def test_a_second_allocation_forgets_the_concurrent_ids_of_the_first_that_have_ended() -> None:
    mapping = mapping_with((7, T, 1, 101), (8, T, 2, 102))
    mapping.commit(7)
    assert mapping.find_concurrent(T, 2) == (1,)
    mapping.allocate(8, T, 3, 104)
    assert mapping.find_concurrent(T, 3) == ()


def test_a_flush_writes_only_what_changed_since_the_last_one() -> None:
    mapping, store = mapping_with((7, T, 1, 101), (8, U, 1, 102)), MemoryStore()
    mapping.touch_partition(T, 1, "p=1")
    with store.transaction() as transaction:
        mapping.flush(transaction)
    with store.transaction() as transaction:
        mapping.flush(transaction)
        assert transaction._replaced == {}  # type: ignore[attr-defined]
    mapping.link_target_txn(7, 900)
    with store.transaction() as transaction:
        mapping.flush(transaction)
        assert list(transaction._replaced) == [encode_txn_key(7)]  # type: ignore[attr-defined]


def test_a_rename_replaces_the_write_ids_of_a_table_that_is_no_longer_written() -> None:
    mapping = mapping_with((6, U, 5, 100), (7, T, 1, 101))
    mapping.commit(6)
    mapping.rename_table(T, U)
    assert valid(mapping, U) == ValidWriteIds(U, 1, (1,))
    assert mapping.tables() == (U,)
    mapping.check()


def test_the_same_allocation_a_second_time_is_known() -> None:
    mapping = mapping_with((7, T, 1, 101), (7, U, 1, 102))
    assert mapping.allocate(7, T, 1, 101) is None
    assert mapping.allocate(7, U, 1, 102) is None
    mapping.commit(7)
    assert mapping.allocate(7, T, 1, 101) is None
    assert len(mapping) == 0


def test_a_second_id_for_the_same_transaction_and_table_replaces_the_first() -> None:
    mapping = mapping_with((7, T, 1, 101))
    mapping.touch_partition(T, 1, "p=1")
    assert mapping.allocate(7, T, 2, 103) == Allocation(T, 2, 103)
    assert valid(mapping) == ValidWriteIds(T, 2, (2,))
    assert mapping.allocate(7, T, 1, 101) is None
    assert touched(mapping) == (Touched(T, 1, "p=1"),)
    mapping.check()
    assert stored(mapping).get(7) == mapping.get(7)


@pytest.mark.parametrize(
    ("txn_id", "write_id", "event_id"),
    [
        pytest.param(8, 2, 105, id="the id of another open transaction"),
        pytest.param(7, 2, 105, id="the same id in a later event"),
        pytest.param(7, 1, 105, id="an id that goes back"),
        pytest.param(7, 3, 102, id="another id in the same event"),
        pytest.param(8, 4, 105, id="a skipped id while one is open"),
    ],
)
def test_a_contradicting_write_id_is_refused_and_changes_nothing(
    txn_id: int, write_id: int, event_id: int
) -> None:
    mapping = mapping_with((7, T, 2, 102))
    with pytest.raises(StateCorrupt) as refusal:
        mapping.allocate(txn_id, T, write_id, event_id)
    assert refusal.value.context["table"] == T
    assert refusal.value.hint
    assert valid(mapping) == ValidWriteIds(T, 2, (2,))
    assert len(mapping) == 1
    mapping.check()


def test_a_jump_in_a_table_without_open_ids_is_legal() -> None:
    mapping = mapping_with((7, T, 1, 101))
    mapping.commit(7)
    assert mapping.allocate(8, T, 10_000_001, 105) is not None


def test_one_source_transaction_has_one_target_transaction() -> None:
    mapping = mapping_with((7, T, 1, 101))
    mapping.link_target_txn(7, 900)
    mapping.link_target_txn(7, 900)
    with pytest.raises(TargetDiverged):
        mapping.link_target_txn(7, 901)
    assert stored(mapping).get(7) == SourceTxn(7, 101, (Allocation(T, 1, 101),), 900)
    with pytest.raises(StateCorrupt):
        mapping.link_target_txn(8, 902)


def test_a_touched_partition_belongs_to_the_open_transaction_that_holds_its_write_id() -> None:
    mapping = mapping_with((7, T, 1, 101))
    assert mapping.touch_partition(T, 1, "p=1")
    assert mapping.touch_partition(T, 1, "p=2")
    assert mapping.touch_partition(T, 1, "p=2")
    assert touched(mapping) == (Touched(T, 1, "p=1"), Touched(T, 1, "p=2"))
    value = mapping.commit(7)
    assert value is not None
    assert value.touched == (Touched(T, 1, "p=1"), Touched(T, 1, "p=2"))
    assert not mapping.touch_partition(T, 1, "p=3")
    assert not mapping.touch_partition(U, 1, "p=3")


def test_stored_records_of_a_transaction_are_deleted_when_it_ends() -> None:
    store = MemoryStore()
    mapping = mapping_with((7, T, 1, 101))
    mapping.touch_partition(T, 1, "p=1")
    stored(mapping, store)
    mapping.commit(7)
    stored(mapping, store)
    assert [key for key, _ in store.scan(b"", None)] == [b"write-ids/" + T.encode() + b"\x00"]
    mapping.drop_table(T)
    stored(mapping, store)
    assert list(store.scan(b"", None)) == []


def test_a_transaction_between_two_flushes_writes_one_record() -> None:
    mapping, store = mapping_with((7, T, 1, 101)), MemoryStore()
    mapping.touch_partition(T, 1, "p=1")
    mapping.link_target_txn(7, 900)
    mapping.commit(7)
    with store.transaction() as transaction:
        mapping.flush(transaction)
        assert len(transaction._replaced) == 1  # type: ignore[attr-defined]


def test_a_rename_keeps_write_ids_open_transactions_and_touched_partitions() -> None:
    mapping = mapping_with((6, T, 1, 100), (7, T, 2, 101))
    mapping.abort(6)
    mapping.touch_partition(T, 2, "p=1")
    mapping.rename_table(T, "sales.renamed")
    mapping.rename_table("sales.unknown", T)
    assert mapping.tables() == ("sales.renamed",)
    assert valid(mapping, "sales.renamed") == ValidWriteIds("sales.renamed", 2, (2,))
    assert touched(mapping) == (Touched("sales.renamed", 2, "p=1"),)
    mapping.check()
    assert stored(mapping).get(7) == mapping.get(7)


def test_a_rename_to_the_same_name_or_of_an_unknown_table_changes_nothing() -> None:
    mapping = mapping_with((7, T, 1, 101))
    mapping.touch_partition(T, 1, "p=1")
    before = mapping.get(7)
    mapping.rename_table(T, T)
    mapping.rename_table("sales.unknown", U)
    assert mapping.get(7) == before
    assert mapping.tables() == (T,)


def test_a_table_that_is_renamed_there_and_back_between_two_flushes_is_stored_as_before() -> None:
    mapping, store = mapping_with((6, T, 1, 100), (7, T, 2, 101)), MemoryStore()
    mapping.touch_partition(T, 2, "p=1")
    before = mapping.get(7)
    stored(mapping, store)
    mapping.rename_table(T, U)
    mapping.rename_table(U, T)
    mapping.check()
    again = stored(mapping, store)
    assert again.get(7) == mapping.get(7)
    assert before is not None
    assert touched(again) == before.touched
    assert again.find_concurrent(T, 2) == (1,)


def test_the_table_of_a_write_is_found_by_the_name_of_its_allocation() -> None:
    mapping = mapping_with((7, T, 1, 101), (7, U, 1, 102))
    assert mapping.find_written_table(7, T, 1) == T
    mapping.rename_table(T, "sales.renamed")
    mapping.drop_table(U)
    assert mapping.find_written_table(7, T, 1) == "sales.renamed"
    assert mapping.find_written_table(7, U, 1) == GONE
    assert mapping.find_written_table(7, T, 2) is None
    assert mapping.find_written_table(8, T, 1) is None


def test_what_is_unknown_has_no_write_id_and_no_target_transaction() -> None:
    mapping = mapping_with((7, T, 3, 101))
    assert (mapping.find_target_txn(7), mapping.find_target_txn(8)) == (None, None)
    mapping.link_target_txn(7, 900)
    assert mapping.find_target_txn(7) == 900
    assert (mapping.find_write_id(7, T), mapping.find_write_id(7, U), mapping.find_write_id(8, T)) == (
        3,
        None,
        None,
    )
    assert (mapping.high_water_mark(T), mapping.high_water_mark(U)) == (3, 0)
    assert mapping.held_write_ids(T) == {(3, 7)}
    assert mapping.held_write_ids(U) == frozenset()
    assert 7 in mapping
    assert 8 not in mapping


def test_at_most_so_many_lists_are_returned() -> None:
    mapping = mapping_with((7, T, 1, 101), (7, U, 2, 102))
    assert mapping.list_valid_write_ids(1) == (ValidWriteIds(T, 1, (1,)),)
    assert mapping.list_valid_write_ids(9) == (ValidWriteIds(T, 1, (1,)), ValidWriteIds(U, 2, (2,)))


def test_a_rename_replaces_leftovers_of_a_failed_create_but_not_a_table_being_written() -> None:
    mapping = mapping_with((6, U, 1, 100), (7, T, 1, 101))
    with pytest.raises(StateCorrupt, match="renamed"):
        mapping.rename_table(T, U)
    mapping.abort(6)
    mapping.rename_table(T, U)
    assert valid(mapping, U) == ValidWriteIds(U, 1, (1,))
    mapping.check()


def test_a_dropped_table_starts_again_and_its_transaction_stays() -> None:
    mapping = mapping_with((7, T, 5, 101), (7, U, 1, 102))
    mapping.link_target_txn(7, 900)
    mapping.drop_table(T)
    mapping.drop_table("sales.unknown")
    assert mapping.allocate(8, T, 1, 110) is not None
    value = mapping.commit(7)
    assert value is not None
    assert value.allocations == (Allocation(U, 1, 102),)
    assert value.target_txn == 900
    mapping.check()


def test_a_dropped_database_takes_only_its_own_tables() -> None:
    mapping = mapping_with((7, T, 1, 101), (7, "sales_eu.orders", 1, 102))
    mapping.drop_database("sales")
    assert mapping.tables() == ("sales_eu.orders",)


def test_aborted_ids_of_an_older_version_are_not_loaded_and_removed_step_by_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(records, "ABORTED_STEP", 10)
    store = MemoryStore()
    with store.transaction() as transaction:
        transaction.put(b"write-ids/sales.orders\x00", b"\x01[30]")
        for write_id in range(1, 26):
            transaction.put(b"write-ids-aborted/sales.orders\x00" + write_id.to_bytes(8, "big"), b"")
    mapping = WriteIdMapping()
    mapping.load(store)
    assert valid(mapping) == ValidWriteIds(T, 30)
    left = []
    for _ in range(4):
        with store.transaction() as transaction:
            mapping.flush(transaction)
        left.append(len(list(store.scan_keys(b"write-ids-aborted/", b"write-ids-aborted0"))))
    assert left == [15, 5, 0, 0]


def test_a_table_whose_only_write_id_was_aborted_is_forgotten() -> None:
    """A failed CREATE TABLE AS SELECT leaves no table, and no event drops it."""
    mapping, store = mapping_with((7, T, 1, 101)), MemoryStore()
    stored(mapping, store)
    mapping.abort(7)
    assert mapping.tables() == ()
    assert stored(mapping, store).tables() == ()
    assert list(store.scan(b"", None)) == []
    assert mapping.allocate(8, T, 2, 105) is not None
    mapping.check()


@pytest.mark.parametrize(
    ("name", "error"),
    [("p=\x00", BadInput), ("p=\ud800", BadInput), ("p" * (NAME_BYTES_MAX + 1), LimitExceeded)],
)
def test_a_partition_name_that_cannot_be_stored_is_refused_at_once(name: str, error: type[BadInput]) -> None:
    mapping = mapping_with((7, T, 1, 101))
    with pytest.raises(error):
        mapping.touch_partition(T, 1, name)
    assert touched(mapping) == ()


def test_a_record_with_a_count_of_write_events_is_still_read() -> None:
    store, record = MemoryStore(), b'\x01[101,101,[["sales.orders",1,101]],900,%d]'
    with store.transaction() as transaction:
        transaction.put(encode_txn_key(7), record % 3)
        transaction.put(b"write-ids/sales.orders\x00", b"\x01[1]")
    mapping = WriteIdMapping()
    mapping.load(store)
    assert mapping.get(7) == SourceTxn(7, 101, (Allocation(T, 1, 101),), 900)
    mapping.link_target_txn(7, 900)
    stored(mapping, store)
    assert store.get(encode_txn_key(7)) == record % 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(encode_txn_key(7), b"", id="no format"),
        pytest.param(encode_txn_key(7), b"\x02[1,1,[],null,0]", id="a format of the future"),
        pytest.param(encode_txn_key(7), b"\x01{", id="not JSON"),
        pytest.param(encode_txn_key(7), b"\x01[1]", id="fields missing"),
        pytest.param(encode_txn_key(7), b'\x01{"txn":7}', id="not a list"),
        pytest.param(
            encode_txn_key(7), b'\x01[1,1,[["sales.orders",3,1]],null,0]', id="a table that is not there"
        ),
        pytest.param(TXN + b"\x01", b"\x01[1,1,[],null,0]", id="a short key"),
        pytest.param(b"write-ids/t\x00", b"\x01[null]", id="no mark"),
        pytest.param(b"write-ids/\xff\x00", b"\x01[1]", id="no name"),
        pytest.param(b"txn-touched/" + bytes(20), b"", id="a touched partition of no transaction"),
        pytest.param(b"txn-touched/1", b"", id="a short touched key"),
    ],
)
def test_a_store_with_contradicting_records_is_refused(key: bytes, value: bytes) -> None:
    store = MemoryStore()
    with store.transaction() as transaction:
        transaction.put(key, value)
    with pytest.raises(StateCorrupt):
        WriteIdMapping().load(store)
