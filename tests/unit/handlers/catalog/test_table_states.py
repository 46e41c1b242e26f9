"""The states of a catalog's tables, in memory and in the store."""

from __future__ import annotations

import pytest

from handlers.catalog.following.table_state import FollowedTable, LoadProgress
from handlers.catalog.following.table_states import TableStates, migrate_table_states
from state.errors import MalformedEvent, Refused, ServerFault, StateCorrupt
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
        states.put(txn, NAME, FollowedTable(("dt",), 1))
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
        states.put(txn, NAME, FollowedTable(("dt",), 1))
        states.request_load(txn, NAME, "asked")
        states.forget(txn, NAME)
    for each in (states, reopen(store)):
        assert each.list_followed() == each.tables_of_db("db") == []
        assert not each.is_waiting(NAME)
    assert list(store.scan(b"", None)) == []


@pytest.mark.parametrize("value", [b"{", b"{}", b'{"unknown": 1}', b'{"known": {"columns": [], "more": 1}}'])
def test_a_stored_state_that_cannot_be_read_is_corrupt(value: bytes) -> None:
    store = MemoryStore()
    with store.transaction() as txn:
        txn.put(b"ct/s/db.a", value)
    with pytest.raises(StateCorrupt):
        reopen(store)


def test_every_state_has_its_name_and_says_why() -> None:
    store, states = MemoryStore(), TableStates(lambda: 100)

    failure, broken = ServerFault("no answer"), MalformedEvent("broken")

    def described() -> list[object]:
        found = reopen(store).state(NAME)
        assert found == states.state(NAME)
        assert found is not None
        values = found.describe()
        return [values["state"], values["reason"], values["event_id"], values["tries"], values["next_try_s"]]

    with store.transaction() as txn:
        states.request_load(txn, NAME, "snapshot")
    assert described() == ["waiting", "snapshot", None, 0, None]
    with store.transaction() as txn:
        states.save_progress(txn, NAME, LoadProgress(1, ("dt",), "dt=1", 1, 2))
    assert described() == ["loading", "snapshot", None, 0, None]
    with store.transaction() as txn:
        states.put(txn, NAME, FollowedTable(("dt",), 1))
        states.finish_load(txn, NAME)
    assert described() == ["following", None, None, 0, None]
    with store.transaction() as txn:
        states.request_load(txn, NAME, "unsure", 7)
    assert described() == ["doubtful", "unsure", 7, 0, None]
    with store.transaction() as txn:
        states.postpone_load(txn, NAME, failure, 0, 100)
    assert described() == ["doubtful", str(failure), 7, 1, 105]
    with store.transaction() as txn:
        states.quarantine(txn, NAME, broken, 9)
    assert described() == ["quarantined", str(broken), 9, 2, 110]


def test_tables_take_turns_with_their_loads() -> None:
    store, states = MemoryStore(), TableStates()
    with store.transaction() as txn:
        for name in ("db.a", "db.b"):
            states.request_load(txn, name, "snapshot")
    order = []
    for _ in range(4):
        due = states.next_load(0)
        assert due is not None
        order.append(due[0])
        states.rotate(due[0])
    assert order == ["db.a", "db.b"] * 2


def test_states_of_version_1_are_migrated() -> None:
    store = MemoryStore()
    old = {
        b"ct/t/db.a": b'{"columns":["dt"],"as_of":3,"until":4,"code":null,"reason":null,"published":"5"}',
        b"ct/t/db.b": (
            b'{"columns":["dt"],"as_of":1,"code":"malformed-event","reason":"broken","failed_at":2}'
        ),
        b"ct/l/db.c": b"snapshot",
        b"ct/b/db.c": b'{"as_of":9,"columns":["dt"],"last":"dt=1","done":1,"total":2}',
        b"ct/l/db.a": b"unsure",
        b"ct/p/db.a": b'{"tries":2,"next_s":50,"code":"server-fault","reason":"no answer"}',
        b"ct/rules": b"rules",
    }
    with store.transaction() as txn:
        for key, value in old.items():
            txn.put(key, value)
        migrate_table_states(txn)
    states = reopen(store)
    assert states.get("db.a") == FollowedTable(("dt",), 3, 4, published="5")
    assert {name: state.name for name in ("db.a", "db.b", "db.c") if (state := states.state(name))} == {
        "db.a": "doubtful",
        "db.b": "quarantined",
        "db.c": "loading",
    }
    assert states.postponed()["db.a"].tries == 2
    assert [key for key, _ in store.scan(b"ct/", None) if not key.startswith(b"ct/s/")] == [b"ct/rules"]
    with store.transaction() as txn:
        txn.put(b"ct/t/db.a", b"{}")
        with pytest.raises(StateCorrupt):
            migrate_table_states(txn)
