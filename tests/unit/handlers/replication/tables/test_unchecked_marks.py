"""Truncated partitions whose marks are still to be compared follow their table, survive a restart, and are
limited."""

from __future__ import annotations

from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from handlers.replication.tables.table_entries import NAMES_MAX, UncheckedTables
from state.store.memory import MemoryStore


@given(st.lists(st.lists(st.sampled_from(["dt=a", "dt=b", "dt=c", "dt=d"]), min_size=1), min_size=1))
def test_every_partition_that_was_added_is_compared(added: list[list[str]]) -> None:
    tables = UncheckedTables()
    for partitions in added:
        tables.add("visits", partitions)
    entry = tables.get("visits")
    assert entry is not None
    assert set(entry.partitions) == {name for partitions in added for name in partitions}
    assert tables.get("orders") is None


def test_more_partitions_than_the_limit_become_all_partitions() -> None:
    tables = UncheckedTables()
    tables.add("visits", [f"n={number}" for number in range(NAMES_MAX)])
    entry = tables.get("visits")
    assert entry is not None
    assert len(entry.partitions) == NAMES_MAX
    for partitions in (["n=more"], ["n=0"]):
        tables.add("visits", partitions)
        entry = tables.get("visits")
        assert entry is not None
        assert list(entry.partitions) == []


def test_an_entry_follows_its_table_and_survives_a_restart() -> None:
    tables, again = UncheckedTables(), UncheckedTables()
    tables.add("visits", ["dt=a"])
    tables.rename("visits", "seen")
    with closing(MemoryStore()) as store:
        with store.transaction() as txn:
            tables.flush(txn)
        again.load(store)
    entry = again.get("seen")
    assert entry is not None
    assert list(entry.partitions) == ["dt=a"]
    assert "visits" not in again
