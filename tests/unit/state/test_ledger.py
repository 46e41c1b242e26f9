"""The ledger of source transactions, event by event."""

from __future__ import annotations

import pytest

from state.errors import BadInput, Inconsistent, LimitExceeded, StateCorrupt, TargetDiverged
from state.store.memory import MemoryStore
from state.transactions import Allocation, SourceTxn, Touched, TxnLedger, ValidWriteIds
from state.transactions.open_transactions import ABORTED_MAX
from state.transactions.records import NAME_BYTES_MAX, TXN, txn_key


T, U = "sales.orders", "sales.lines"


def ledger_with(*allocations: tuple[int, str, int, int]) -> TxnLedger:
    ledger = TxnLedger()
    for txn_id, table, write_id, event_id in allocations:
        assert ledger.allocated(txn_id, table, write_id, event_id) is not None
    return ledger


def stored(ledger: TxnLedger, store: MemoryStore | None = None) -> TxnLedger:
    """Flush and load again; both have to be the same."""
    store = store or MemoryStore()
    with store.transaction() as transaction:
        ledger.flush(transaction)
    loaded = TxnLedger()
    loaded.load(store)
    loaded.check()
    return loaded


def valid(ledger: TxnLedger, table: str = T) -> ValidWriteIds:
    ids = ledger.valid_write_ids(table)
    assert ids is not None
    return ids


def test_a_transaction_is_remembered_from_its_first_write_id_on() -> None:
    ledger = TxnLedger()
    ledger.opened(7, 9, 100)
    assert len(ledger) == 0
    assert ledger.allocated(7, T, 1, 101) == Allocation(T, 1, 101)
    assert ledger.get(7) == SourceTxn(7, 101, (Allocation(T, 1, 101),))
    assert valid(ledger) == ValidWriteIds(T, 1, (1,))
    ledger.check()


def test_a_transaction_over_several_tables_keeps_them_in_event_order() -> None:
    ledger = ledger_with((7, U, 1, 101), (7, T, 4, 102))
    value = ledger.committed(7)
    assert value is not None
    assert value.allocations == (Allocation(U, 1, 101), Allocation(T, 4, 102))
    assert ledger.get(7) is None
    assert valid(ledger) == ValidWriteIds(T, 4)


def test_an_abort_leaves_its_write_ids_aborted() -> None:
    ledger = ledger_with((7, T, 1, 101), (8, T, 2, 102))
    assert ledger.aborted(7) is not None
    assert valid(ledger) == ValidWriteIds(T, 2, (2,), (1,))
    assert valid(stored(ledger)) == ValidWriteIds(T, 2, (2,), (1,))


def test_the_end_of_a_transaction_out_of_scope_is_nothing() -> None:
    ledger = TxnLedger()
    assert ledger.committed(7) is None
    assert ledger.aborted(7) is None
    assert ledger.unlisted(7) == ()
    assert ledger.oldest_open() is None
    assert ledger.valid_write_ids(T) is None
    ledger.write_seen(7, T, "")


def test_the_same_allocation_a_second_time_is_known() -> None:
    ledger = ledger_with((7, T, 1, 101), (7, U, 1, 102))
    assert ledger.allocated(7, T, 1, 101) is None
    assert ledger.allocated(7, U, 1, 102) is None
    ledger.committed(7)
    assert ledger.allocated(7, T, 1, 101) is None
    assert len(ledger) == 0


def test_a_second_id_for_the_same_transaction_and_table_replaces_the_first() -> None:
    ledger = ledger_with((7, T, 1, 101))
    ledger.touched(T, 1, "p=1")
    assert ledger.allocated(7, T, 2, 103) == Allocation(T, 2, 103)
    assert valid(ledger) == ValidWriteIds(T, 2, (2,))
    assert ledger.allocated(7, T, 1, 101) is None
    assert ledger.unlisted(7) == (Touched(T, 1, "p=1"),)
    ledger.check()
    assert stored(ledger).get(7) == ledger.get(7)


@pytest.mark.parametrize(
    ("txn_id", "write_id", "event_id"),
    [
        pytest.param(8, 2, 105, id="the id of another open transaction"),
        pytest.param(7, 2, 105, id="the same id in a later event"),
        pytest.param(7, 1, 105, id="an id that goes back"),
        pytest.param(7, 3, 102, id="another id in the same event"),
        pytest.param(8, 4, 105, id="an id left out while one is open"),
    ],
)
def test_a_write_id_that_contradicts_is_refused_and_changes_nothing(
    txn_id: int, write_id: int, event_id: int
) -> None:
    ledger = ledger_with((7, T, 2, 102))
    with pytest.raises(StateCorrupt) as refusal:
        ledger.allocated(txn_id, T, write_id, event_id)
    assert refusal.value.context["table"] == T
    assert refusal.value.hint
    assert valid(ledger) == ValidWriteIds(T, 2, (2,))
    assert len(ledger) == 1
    ledger.check()


def test_a_jump_in_a_table_without_open_ids_is_legal() -> None:
    ledger = ledger_with((7, T, 1, 101))
    ledger.committed(7)
    assert ledger.allocated(8, T, 10_000_001, 105) is not None


def test_opening_a_transaction_that_holds_write_ids_is_refused() -> None:
    ledger = ledger_with((7, T, 1, 101))
    ledger.opened(7, 7, 100)
    ledger.opened(8, 2**60, 102)
    with pytest.raises(StateCorrupt, match="twice"):
        ledger.opened(1, 2**60, 102)
    with pytest.raises(StateCorrupt, match="twice"):
        ledger.opened(7, 7, 102)


def test_one_source_transaction_has_one_target_transaction() -> None:
    ledger = ledger_with((7, T, 1, 101))
    ledger.target_opened(7, 900)
    ledger.target_opened(7, 900)
    with pytest.raises(TargetDiverged):
        ledger.target_opened(7, 901)
    assert stored(ledger).get(7) == SourceTxn(7, 101, (Allocation(T, 1, 101),), 900)
    with pytest.raises(StateCorrupt):
        ledger.target_opened(8, 902)


def test_a_touched_partition_without_a_write_event_is_unlisted() -> None:
    ledger = ledger_with((7, T, 1, 101))
    assert ledger.touched(T, 1, "p=1")
    assert ledger.touched(T, 1, "p=2")
    assert ledger.touched(T, 1, "p=2")
    ledger.write_seen(7, T, "p=1")
    ledger.write_seen(7, U, "p=2")
    assert ledger.unlisted(7) == (Touched(T, 1, "p=2"),)
    value = ledger.committed(7)
    assert value is not None
    assert value.writes_seen == 1
    assert value.touched == (Touched(T, 1, "p=2"),)
    assert not ledger.touched(T, 1, "p=3")
    assert not ledger.touched(U, 1, "p=3")


def test_what_lies_in_the_store_is_gone_when_its_transaction_is() -> None:
    store = MemoryStore()
    ledger = ledger_with((7, T, 1, 101))
    ledger.touched(T, 1, "p=1")
    stored(ledger, store)
    ledger.committed(7)
    stored(ledger, store)
    assert [key for key, _ in store.scan(b"", None)] == [b"write-ids/" + T.encode() + b"\x00"]
    ledger.dropped(T)
    stored(ledger, store)
    assert list(store.scan(b"", None)) == []


def test_a_transaction_between_two_flushes_writes_one_record() -> None:
    ledger, store = ledger_with((7, T, 1, 101)), MemoryStore()
    ledger.touched(T, 1, "p=1")
    ledger.target_opened(7, 900)
    ledger.committed(7)
    with store.transaction() as transaction:
        ledger.flush(transaction)
        assert len(transaction._replaced) == 1  # type: ignore[attr-defined]


def test_a_rename_takes_write_ids_open_transactions_and_touched_partitions_along() -> None:
    ledger = ledger_with((6, T, 1, 100), (7, T, 2, 101))
    ledger.aborted(6)
    ledger.touched(T, 2, "p=1")
    ledger.renamed(T, "sales.renamed")
    ledger.renamed("sales.unknown", T)
    assert ledger.tables() == ("sales.renamed",)
    assert valid(ledger, "sales.renamed") == ValidWriteIds("sales.renamed", 2, (2,), (1,))
    assert ledger.unlisted(7) == (Touched("sales.renamed", 2, "p=1"),)
    ledger.check()
    assert stored(ledger).get(7) == ledger.get(7)


def test_a_rename_replaces_what_a_failed_create_left_but_not_what_is_written() -> None:
    ledger = ledger_with((6, U, 1, 100), (7, T, 1, 101))
    with pytest.raises(StateCorrupt, match="renamed"):
        ledger.renamed(T, U)
    ledger.aborted(6)
    ledger.renamed(T, U)
    assert valid(ledger, U) == ValidWriteIds(U, 1, (1,))
    ledger.check()


def test_a_dropped_table_starts_anew_and_its_transaction_stays() -> None:
    ledger = ledger_with((7, T, 5, 101), (7, U, 1, 102))
    ledger.target_opened(7, 900)
    ledger.dropped(T)
    ledger.dropped("sales.unknown")
    assert ledger.allocated(8, T, 1, 110) is not None
    value = ledger.committed(7)
    assert value is not None
    assert value.allocations == (Allocation(U, 1, 102),)
    assert value.target_txn == 900
    ledger.check()


def test_a_dropped_database_takes_only_its_own_tables() -> None:
    ledger = ledger_with((7, T, 1, 101), (7, "sales_eu.orders", 1, 102))
    ledger.database_dropped("sales")
    assert ledger.tables() == ("sales_eu.orders",)


def test_a_seeded_table_goes_on_from_its_list() -> None:
    ledger = ledger_with((3, T, 1, 50))
    ledger.seed(ValidWriteIds(T, 9, (8,), (4, 5)), {8: 70}, event_id=200)
    assert ledger.get(70) == SourceTxn(70, 200, (Allocation(T, 8, 200),))
    assert ledger.allocated(71, T, 10, 201) is not None
    ledger.committed(70)
    assert valid(stored(ledger)) == ValidWriteIds(T, 10, (10,), (4, 5))


def test_a_list_with_open_ids_of_unknown_transactions_is_refused() -> None:
    ledger = TxnLedger()
    with pytest.raises(Inconsistent) as refusal:
        ledger.seed(ValidWriteIds(T, 9, (7, 8)), {8: 70})
    assert refusal.value.context["write_ids"] == [7]
    assert ledger.tables() == ()


def test_the_oldest_open_transaction_is_the_one_that_wrote_first() -> None:
    ledger = ledger_with((9, T, 1, 100), (7, T, 2, 101))
    oldest = ledger.oldest_open()
    assert oldest is not None
    assert oldest.txn_id == 9


def test_the_oldest_aborted_ids_are_forgotten_beyond_the_limit() -> None:
    ledger, store = TxnLedger(), MemoryStore()
    ledger.seed(ValidWriteIds(T, ABORTED_MAX + 5, (), tuple(range(1, ABORTED_MAX + 6))))
    assert len(valid(ledger).aborted) == ABORTED_MAX
    stored(ledger, store)
    ledger.allocated(7, T, ABORTED_MAX + 6, 101)
    ledger.aborted(7)
    again = stored(ledger, store)
    assert valid(again) == valid(ledger)
    assert valid(again).aborted[0] == 7
    assert len(valid(again).aborted) == ABORTED_MAX


@pytest.mark.parametrize(
    ("name", "error"),
    [("p=\x00", BadInput), ("p=\ud800", BadInput), ("p" * (NAME_BYTES_MAX + 1), LimitExceeded)],
)
def test_a_partition_name_that_cannot_be_stored_is_refused_at_once(name: str, error: type[BadInput]) -> None:
    ledger = ledger_with((7, T, 1, 101))
    with pytest.raises(error):
        ledger.touched(T, 1, name)
    assert ledger.unlisted(7) == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(txn_key(7), b"", id="no format"),
        pytest.param(txn_key(7), b"\x02[1,1,[],null,0]", id="a format of the future"),
        pytest.param(txn_key(7), b"\x01{", id="no json"),
        pytest.param(txn_key(7), b"\x01[1]", id="fields missing"),
        pytest.param(txn_key(7), b'\x01[1,1,[["sales.orders",3,1]],null,0]', id="a table that is not there"),
        pytest.param(TXN + b"\x01", b"\x01[1,1,[],null,0]", id="a short key"),
        pytest.param(b"write-ids/t\x00", b"\x01[null]", id="no mark"),
        pytest.param(b"write-ids/\xff\x00", b"\x01[1]", id="no name"),
        pytest.param(b"write-ids-aborted/t\x00" + bytes(8), b"", id="an aborted id of no table"),
        pytest.param(b"txn-touched/" + bytes(20), b"", id="a touched partition of no transaction"),
        pytest.param(b"txn-touched/1", b"", id="a short touched key"),
    ],
)
def test_a_store_that_contradicts_itself_is_refused(key: bytes, value: bytes) -> None:
    store = MemoryStore()
    with store.transaction() as transaction:
        transaction.put(key, value)
    with pytest.raises(StateCorrupt):
        TxnLedger().load(store)
