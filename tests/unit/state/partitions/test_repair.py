"""Repair: after any manual damage to the store, the check succeeds and every row still exists."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from state.partitions.index import records
from state.partitions.index.repair import RepairReport, repair
from state.store.memory import MemoryStore
from tests.builders.partitions.indexed_tables import TABLE, an_index


COLUMNS = [("ds", "string"), ("hr", "int"), ("region", "string")]
ROWS = [(ds, hr, "x") for ds in "abc" for hr in ("1", "2")]


def test_a_consistent_index_is_not_changed() -> None:
    store = MemoryStore()
    an_index(COLUMNS, ROWS, store)
    before = dict(store.scan(b"", None))
    assert repair(store) == RepairReport()
    assert dict(store.scan(b"", None)) == before


@given(st.sets(st.sampled_from(ROWS)), st.sets(st.integers(0, 11)), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_after_repairing_any_damage_the_check_succeeds_and_no_row_is_lost(
    without_row: set[tuple[str, str, str]], without_posting: set[int], unowned: int
) -> None:
    store = MemoryStore()
    index = an_index(COLUMNS, ROWS, store)
    table = index.table(TABLE)
    postings = list(store.scan_keys(*records.posting_range(table)))
    with store.transaction() as txn:
        for values in without_row:
            txn.delete(table.rows + table.key_schema.row(values))
        for at in without_posting:
            txn.delete(postings[at])
        for number in range(unowned):
            txn.put(b"px/p/" + (90 + number).to_bytes(8) + b"row", b"")
            txn.put(b"px/c/" + (90 + number).to_bytes(8) + b"posting", b"")
    found = repair(store)
    index.check()
    left = set(ROWS) - without_row
    assert {each.values for each in index.partitions(index.prepare(TABLE, ""))} == left
    assert found.unowned == 2 * unowned
    assert found.orphaned + found.missing <= len(postings)
    assert repair(store) == RepairReport()
