"""Which renames make the copies of a table doubtful, against a model that knows when each copy was made."""

from __future__ import annotations

from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from handlers.replication.tables.table_entries import CopiedAheadTables
from state.store.memory import MemoryStore


COPIES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 20)), min_size=1, max_size=20)
"""For each event of one table: its distance from the event before, and how far the source was ahead of it at
the end of its copy."""


@given(COPIES, st.integers(1, 5))
def test_a_rename_is_compared_with_every_copy_before_it(copies: list[tuple[int, int]], step: int) -> None:
    tables, event_id, newest = CopiedAheadTables(), 0, 0
    for distance, ahead in copies:
        event_id += distance
        newest = max(newest, event_id + ahead)
        tables.record("orders", newest, event_id)
    rename = event_id + step
    assert tables.covers("orders", rename) == (rename <= newest)
    assert not tables.covers("visits", rename)


def test_a_copy_by_an_older_answer_of_the_source_forgets_nothing() -> None:
    tables = CopiedAheadTables()
    tables.record("orders", 9, 3)
    tables.record("orders", 5, 4)
    assert tables.covers("orders", 9)


def test_an_entry_follows_its_table_and_survives_a_restart() -> None:
    tables, again = CopiedAheadTables(), CopiedAheadTables()
    tables.record("orders", 9, 3)
    tables.rename("orders", "bought")
    with closing(MemoryStore()) as store:
        with store.transaction() as txn:
            tables.flush(txn)
        again.load(store)
    assert again.covers("bought", 9)
    assert not again.covers("orders", 9)
    assert not again.covers("bought", 10)


def test_without_the_entries_of_an_earlier_process_every_rename_up_to_its_end_counts() -> None:
    tables = CopiedAheadTables()
    tables.distrust(7)
    assert tables.covers("orders", 7)
    assert not tables.covers("orders", 8)
