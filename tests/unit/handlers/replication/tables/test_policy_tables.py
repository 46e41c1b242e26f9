"""What is known of a policy's tables follows them as in a naive model: one dictionary for each kind of
knowledge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from handlers.replication.tables.policy_tables import PolicyTables
from handlers.replication.tables.table_entries import TableEntries, UnreplicatedTable
from state.errors import MalformedEvent
from state.store.memory import MemoryStore


TABLES = ("a", "b", "c")
FOLLOWED = ("write id", "quarantine", "load", "copied ahead", "unchecked marks")
"""Kinds that follow a table when it is renamed or dropped."""
KINDS = (*FOLLOWED, "unreplicated", "left")

names = st.sampled_from(TABLES)
changes = st.one_of(
    st.tuples(st.just("learn"), st.sampled_from(KINDS), names),
    st.tuples(st.just("rename"), names, names).filter(lambda each: each[1] != each[2]),
    st.tuples(st.just("forget"), names, names),
    st.tuples(st.just("forget all"), names, names),
    st.tuples(st.just("restart"), names, names),
)


@dataclass
class Objects:
    """Objects of the target, which are never known under a name that has changed."""

    names: set[str] = field(default_factory=set)

    def forget(self, name: str) -> None:
        self.names.discard(name)

    def clear(self) -> None:
        self.names.clear()


@dataclass
class Known:
    """The class under test, with a store."""

    tables: PolicyTables = field(default_factory=lambda: PolicyTables("shop", Objects()))
    store: MemoryStore = field(default_factory=MemoryStore)
    txn_id: int = 0

    def learn(self, kind: str, table: str) -> None:
        tables = self.tables
        self.txn_id += 1
        match kind:
            case "write id":
                name = f"shop.{table}"
                next_id = tables.write_ids.high_water_mark(name) + 1
                tables.write_ids.allocate(self.txn_id, name, next_id, self.txn_id)
                tables.write_ids.commit(self.txn_id)
            case "quarantine":
                tables.quarantine.add(table, 1, MalformedEvent("broken"))
            case "load":
                tables.loads.request(table, "repair")
            case "copied ahead":
                tables.copied_ahead.record(table, 9, 1)
            case "unchecked marks":
                tables.unchecked_marks.add(table, ["dt=1"])
            case "unreplicated":
                tables.unreplicated.put(UnreplicatedTable(table, 1))
            case "left":
                tables.left.add(table)

    def restart(self) -> None:
        with self.store.transaction() as txn:
            self.tables.flush(txn)
        self.tables = PolicyTables("shop", Objects())
        self.tables.load(self.store)

    def facts(self) -> set[tuple[str, str]]:
        tables = self.tables
        entries: dict[str, TableEntries[Any]] = {
            "quarantine": tables.quarantine,
            "load": tables.loads,
            "copied ahead": tables.copied_ahead,
            "unchecked marks": tables.unchecked_marks,
            "unreplicated": tables.unreplicated,
            "left": tables.left,
        }
        present = {(kind, table) for kind, each in entries.items() for table in TABLES if table in each}
        written = {("write id", each) for each in TABLES if tables.write_ids.high_water_mark(f"shop.{each}")}
        return present | written


@given(st.lists(changes, max_size=30))
@example([("learn", kind, "a") for kind in KINDS] + [("forget all", "a", "a")])
def test_after_random_renames_drops_and_restarts_each_kind_is_known_under_the_names_of_a_naive_model(
    history: list[tuple[str, str, str]],
) -> None:
    known, model = Known(), set[tuple[str, str]]()
    for change, first, second in history:
        match change:
            case "learn":
                known.learn(first, second)
                model.add((first, second))
            case "rename":
                known.tables.rename(first, second)
                moved = {kind for kind, table in model if table == first and kind in FOLLOWED}
                model = {(k, t) for k, t in model if k not in moved or t not in {first, second}}
                model |= {(kind, second) for kind in moved}
            case "forget":
                known.tables.forget(first)
                model = {(kind, table) for kind, table in model if table != first or kind not in FOLLOWED}
            case "forget all":
                known.tables.forget_all()
                model = {(kind, table) for kind, table in model if kind == "left"}
            case "restart":
                known.restart()
        assert known.facts() == model


@given(names, names)
def test_no_object_of_the_target_is_known_under_a_name_that_has_changed(old: str, new: str) -> None:
    objects = Objects({*TABLES})
    tables = PolicyTables("shop", objects)
    tables.rename(old, new)
    assert objects.names == {*TABLES} - {old, new}
    tables.forget_all()
    assert objects.names == set()
