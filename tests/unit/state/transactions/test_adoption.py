"""A table that was tracked alone while it was loaded is adopted as if its events had always been applied with
all others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from state.transactions.open_transactions import Allocation, SourceTxn, Touched
from state.transactions.write_id_mapping import WriteIdMapping


OWN, OTHER = "shop.visits", "shop.orders"
TXNS = range(1, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(TXNS), st.sampled_from((OWN, OTHER))),
        st.tuples(st.just("touch"), st.sampled_from(TXNS), st.sampled_from(("p=1", "p=2"))),
        st.tuples(st.just("link"), st.sampled_from(TXNS), st.just("")),
        st.tuples(st.just("end"), st.sampled_from(TXNS), st.sampled_from(("commit", "abort"))),
    ),
    max_size=30,
)


def apply_steps(steps: Iterable[tuple[str, int, str]], tables: set[str]) -> WriteIdMapping:
    """Return a mapping that was fed with the events of these tables alone."""
    mapping = WriteIdMapping()
    newest = {OWN: 0, OTHER: 0}
    held: dict[int, dict[str, int]] = {}
    ended: set[int] = set()
    for event_id, (step, txn_id, what) in enumerate(steps, 1):
        writes = held.setdefault(txn_id, {})
        if txn_id in ended:
            continue
        if step == "write" and what not in writes:
            newest[what] += 1
            writes[what] = newest[what]
            if what in tables:
                mapping.allocate(txn_id, what, newest[what], event_id)
        elif step == "touch":
            for table in tables & writes.keys():
                mapping.touch_partition(table, writes[table], what)
        elif step == "link" and txn_id in mapping:
            mapping.link_target_txn(txn_id, 900 + txn_id)
        elif step == "end":
            ended.add(txn_id)
            mapping.commit(txn_id) if what == "commit" else mapping.abort(txn_id)
    return mapping


def in_any_order(txn: SourceTxn | None) -> SourceTxn | None:
    """Return the transaction with its touched partitions sorted: those of one table keep their order, not
    those of all."""
    return None if txn is None else replace(txn, touched=tuple(sorted(txn.touched)))


@given(STEPS)
def test_an_adopted_table_is_known_as_if_its_events_had_been_applied_with_the_others(
    steps: list[tuple[str, int, str]],
) -> None:
    together = apply_steps(steps, {OWN, OTHER})
    adopted = apply_steps(steps, {OTHER})
    adopted.adopt(OWN, apply_steps(steps, {OWN}))
    adopted.check()
    assert adopted.tables() == together.tables()
    for table in (OWN, OTHER):
        assert adopted.valid_write_ids(table) == together.valid_write_ids(table)
        for write_id, _ in together.held_write_ids(table):
            assert adopted.find_concurrent(table, write_id) == together.find_concurrent(table, write_id)
    for txn_id in TXNS:
        assert in_any_order(adopted.get(txn_id)) == in_any_order(together.get(txn_id))


def test_a_transaction_in_both_begins_with_the_earlier_event_and_keeps_its_target_transaction() -> None:
    alone, mapping = WriteIdMapping(), WriteIdMapping()
    alone.allocate(6, OWN, 1, 100)
    alone.allocate(7, OWN, 2, 101)
    alone.allocate(8, OWN, 3, 104)
    alone.link_target_txn(7, 901)
    alone.link_target_txn(8, 902)
    alone.touch_partition(OWN, 2, "p=1")
    mapping.allocate(7, OTHER, 1, 102)
    mapping.allocate(8, OTHER, 2, 103)
    mapping.link_target_txn(8, 902)
    mapping.adopt(OWN, alone)
    touched = (Touched(OWN, 2, "p=1"),)
    assert mapping.get(7) == SourceTxn(
        7, 101, (Allocation(OWN, 2, 101), Allocation(OTHER, 1, 102)), 901, touched
    )
    assert mapping.get(8) == SourceTxn(8, 103, (Allocation(OTHER, 2, 103), Allocation(OWN, 3, 104)), 902)
    assert mapping.find_concurrent(OWN, 2) == (1,)
    assert mapping.find_concurrent(OWN, 3) == (1, 2)


def test_only_the_table_itself_is_adopted() -> None:
    alone, mapping = WriteIdMapping(), WriteIdMapping()
    alone.allocate(7, OWN, 1, 101)
    alone.allocate(8, OTHER, 1, 102)
    mapping.adopt(OWN, alone)
    assert mapping.tables() == (OWN,)
    assert mapping.open_txns() == (7,)


def test_a_table_without_write_ids_is_adopted_as_an_unknown_one() -> None:
    mapping = WriteIdMapping()
    mapping.allocate(7, OWN, 1, 101)
    mapping.adopt(OWN, WriteIdMapping())
    assert mapping.tables() == ()
    assert mapping.get(7) == SourceTxn(7, 101)


def test_ids_that_have_ended_since_stay_concurrent_with_the_adopted_allocation() -> None:
    alone, mapping = WriteIdMapping(), WriteIdMapping()
    alone.allocate(6, OWN, 1, 100)
    alone.allocate(7, OWN, 2, 101)
    alone.commit(6)
    mapping.adopt(OWN, alone)
    assert mapping.find_concurrent(OWN, 2) == (1,)
