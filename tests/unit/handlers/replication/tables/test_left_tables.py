"""Tables that left a policy are remembered, with the moment of the first time, while the target has them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from handlers.replication.tables.table_entries import LeftTable, LeftTables
from state.store.memory import MemoryStore


if TYPE_CHECKING:
    import pytest


def test_a_table_leaves_once_and_is_forgotten_when_the_target_no_longer_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moments = iter([100.5, 200.5, 300.5])
    monkeypatch.setattr(time, "time", lambda: next(moments))
    tables, store = LeftTables(), MemoryStore()
    for name in ("a", "b", "a"):
        tables.add(name)
    assert list(tables.entries()) == [LeftTable("a", 100), LeftTable("b", 200)]
    with store.transaction() as txn:
        tables.flush(txn)
    tables.keep_only(["b", "c"])
    assert list(tables.entries()) == [LeftTable("b", 200)]
    with store.transaction() as txn:
        tables.flush(txn)
    again = LeftTables()
    again.load(store)
    assert list(again.entries()) == [LeftTable("b", 200)]
