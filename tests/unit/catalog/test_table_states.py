"""The states of a catalog's tables, in memory and in the store."""

from __future__ import annotations

import pytest

from handlers.catalog.following.table_states import KnownTable, LoadProgress, TableStates
from state.errors import MalformedEvent, Refused, StateCorrupt
from state.store.memory import MemoryStore


NAME = "db.a"


def reopen(store: MemoryStore) -> TableStates:
    states = TableStates()
    states.open(store)
    return states


def test_a_quarantined_table_keeps_its_first_reason() -> None:
    store, states = MemoryStore(), TableStates()
    with store.transaction() as txn:
        states.quarantine(txn, NAME, MalformedEvent("first"))
        states.quarantine(txn, NAME, Refused("second"))
    for each in (states, reopen(store)):
        known = each.get(NAME)
        assert known is not None
        assert known.code == MalformedEvent("").code
        assert "first" in each.quarantined()[NAME]


def test_a_table_that_is_followed_again_is_no_longer_quarantined() -> None:
    store, states = MemoryStore(), TableStates()
    with store.transaction() as txn:
        states.quarantine(txn, NAME, MalformedEvent("first"))
        states.quarantine(txn, "db.b", MalformedEvent("first"))
        states.put(txn, NAME, KnownTable(("dt",), 1))
    assert list(states.quarantined()) == list(reopen(store).quarantined()) == ["db.b"]


def test_a_requested_load_starts_from_the_beginning() -> None:
    store, states = MemoryStore(), TableStates()
    with store.transaction() as txn:
        states.request_load(txn, NAME, "snapshot")
        states.save_progress(txn, NAME, LoadProgress(1, ("dt",), "dt=1", 1, 2))
    assert reopen(store).progress(NAME) == LoadProgress(1, ("dt",), "dt=1", 1, 2)
    with store.transaction() as txn:
        states.request_load(txn, NAME, "asked")
    for each in (states, reopen(store)):
        assert each.progress(NAME) is None
        assert each.next_load(0) == (NAME, "asked")


def test_a_forgotten_table_is_neither_known_nor_waiting() -> None:
    store, states = MemoryStore(), TableStates()
    with store.transaction() as txn:
        states.put(txn, NAME, KnownTable(("dt",), 1))
        states.request_load(txn, NAME, "asked")
        states.forget(txn, NAME)
    for each in (states, reopen(store)):
        assert each.known() == each.tables_of_db("db") == []
        assert not each.is_waiting(NAME)
    assert list(store.scan(b"", None)) == []


@pytest.mark.parametrize("value", [b"{", b"{}", b'{"columns": [], "unknown": 1}'])
def test_a_stored_state_that_cannot_be_read_is_corrupt(value: bytes) -> None:
    store = MemoryStore()
    with store.transaction() as txn:
        txn.put(b"ct/t/db.a", value)
    with pytest.raises(StateCorrupt):
        reopen(store)
