"""The write-id mapping under random histories of a source, against lists of facts, with crashes back to the
last flush."""

from __future__ import annotations

import contextlib
from copy import deepcopy
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from state.store.memory import MemoryStore
from state.transactions.open_transactions import GONE, Allocation, Touched
from state.transactions.valid_write_ids import ValidWriteIds
from state.transactions.write_id_mapping import WriteIdMapping


TABLE_NAMES = ("a.t", "a.u", "a.v", "b.t")
TABLES = st.sampled_from(TABLE_NAMES)
PARTITIONS = st.sampled_from(["", "p=1", "p=2"])

Event = tuple[str, tuple[object, ...]]


@dataclass
class Source:
    """A naive metastore and a naive observer of it: every fact in a flat list, every answer by filtering."""

    event_id: int = 0
    txn_id: int = 0
    open_txns: list[int] = field(default_factory=list)
    held: list[tuple[int, Allocation]] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)
    target_txns: dict[int, int] = field(default_factory=dict)
    touched: list[tuple[int, Touched]] = field(default_factory=list)
    remembered: list[int] = field(default_factory=list)
    names: list[tuple[int, str, int, int]] = field(default_factory=list)
    """Every name that an allocation ever had: transaction, name, write id, and the event of the allocation;
    latest last."""
    concurrent: dict[int, set[int]] = field(default_factory=dict)
    """By the event of each allocation: the other write ids of the table that were open then."""
    replaced: list[int] = field(default_factory=list)
    """The events of allocations that a second one of the same transaction and table replaced."""

    def current_names(self) -> dict[tuple[int, str, int], str | None]:
        """What each name means now; None where a replaced allocation makes the answer irrelevant."""
        held = {allocation.event_id: allocation.table for _, allocation in self.held}
        answers: dict[tuple[int, str, int], str | None] = {}
        for txn_id, name, write_id, event_id in self.names:
            answers[txn_id, name, write_id] = held.get(event_id, GONE)
        for txn_id, name, write_id, event_id in self.names:
            if event_id in self.replaced:
                answers[txn_id, name, write_id] = None
        return answers

    def next_event(self) -> int:
        self.event_id += 1
        return self.event_id

    def allocations(self, txn_id: int) -> tuple[Allocation, ...]:
        return tuple(a for owner, a in self.held if owner == txn_id)

    def valid(self, table: str) -> ValidWriteIds | None:
        if table not in self.marks:
            return None
        opened = sorted(a.write_id for _, a in self.held if a.table == table)
        return ValidWriteIds(table, self.marks[table], tuple(opened))

    def forget_table(self, table: str) -> None:
        self.marks.pop(table, None)
        self.held = [(t, a) for t, a in self.held if a.table != table]
        self.touched = [(t, x) for t, x in self.touched if x.table != table]

    def forget_txn(self, txn_id: int) -> None:
        self.open_txns.remove(txn_id)
        self.held = [(t, a) for t, a in self.held if t != txn_id]
        self.touched = [(t, x) for t, x in self.touched if t != txn_id]
        self.remembered = [t for t in self.remembered if t != txn_id]

    def rename(self, old: str, new: str) -> None:
        self.forget_table(new)
        self.marks[new] = self.marks.pop(old)
        self.names += [(t, new, a.write_id, a.event_id) for t, a in self.held if a.table == old]
        self.held = [(t, a._replace(table=new) if a.table == old else a) for t, a in self.held]
        self.touched = [(t, x._replace(table=new) if x.table == old else x) for t, x in self.touched]


class MappingMachine(RuleBasedStateMachine):
    """``source`` is the truth now, ``saved`` the truth at the last flush."""

    def __init__(self) -> None:
        super().__init__()
        self.source = Source()
        self.mapping = WriteIdMapping()
        self.store = MemoryStore()

    @initialize()
    def first_flush(self) -> None:
        self.flush()

    def open_txn(self) -> None:
        self.source.txn_id += 1
        self.source.open_txns.append(self.source.txn_id)
        self.source.next_event()

    @rule(data=st.data(), table=TABLES, new=st.booleans())
    def allocate(self, data: st.DataObject, table: str, new: bool) -> None:
        if new or not self.source.open_txns:
            self.open_txn()
        txn_id = data.draw(st.sampled_from(self.source.open_txns[::-1]))
        write_id = self.source.marks.get(table, 0) + 1
        allocation = Allocation(table, write_id, self.source.next_event())
        assert self.mapping.allocate(txn_id, *allocation) == allocation
        held = [(t, a) for t, a in self.source.held if (t, a.table) != (txn_id, table)]
        self.source.replaced += [a.event_id for t, a in self.source.held if (t, a.table) == (txn_id, table)]
        self.source.names.append((txn_id, table, write_id, allocation.event_id))
        self.source.concurrent[allocation.event_id] = {a.write_id for _, a in held if a.table == table}
        self.source.held = [*held, (txn_id, allocation)]
        self.source.marks[table] = write_id
        if txn_id not in self.source.remembered:
            self.source.remembered.append(txn_id)

    @precondition(lambda self: self.source.remembered)
    @rule(data=st.data())
    def open_target(self, data: st.DataObject) -> None:
        txn_id = data.draw(st.sampled_from(self.source.remembered))
        self.source.target_txns[txn_id] = 1000 + txn_id
        self.mapping.link_target_txn(txn_id, 1000 + txn_id)

    @precondition(lambda self: self.source.held)
    @rule(data=st.data(), partition=PARTITIONS)
    def touch(self, data: st.DataObject, partition: str) -> None:
        _, (table, write_id, _) = data.draw(st.sampled_from(self.source.held))
        self.touch_any(table, write_id, partition)

    @rule(table=TABLES, write_id=st.integers(1, 8), partition=PARTITIONS)
    def touch_any(self, table: str, write_id: int, partition: str) -> None:
        owners = [t for t, a in self.source.held if (a.table, a.write_id) == (table, write_id)]
        assert self.mapping.touch_partition(table, write_id, partition) == bool(owners)
        fact = Touched(table, write_id, partition)
        if owners and (owners[0], fact) not in self.source.touched:
            self.source.touched.append((owners[0], fact))

    @precondition(lambda self: self.source.open_txns)
    @rule(data=st.data(), commit=st.booleans())
    def finish(self, data: st.DataObject, commit: bool) -> None:
        txn_id = data.draw(st.sampled_from(self.source.open_txns))
        before = self.mapping.get(txn_id)
        value = self.mapping.commit(txn_id) if commit else self.mapping.abort(txn_id)
        assert value == before
        self.source.next_event()
        held = self.source.allocations(txn_id)
        self.source.forget_txn(txn_id)
        for table in {a.table for a in held} if not commit else ():
            if self.source.marks[table] == 1:
                self.source.forget_table(table)

    @precondition(lambda self: self.source.marks)
    @rule(data=st.data(), new=TABLES)
    def rename(self, data: st.DataObject, new: str) -> None:
        self.source.next_event()
        old = data.draw(st.sampled_from(sorted(self.source.marks)))
        if old == new or any(a.table == new for _, a in self.source.held):
            return
        self.source.rename(old, new)
        self.mapping.rename_table(old, new)

    @precondition(lambda self: self.source.marks)
    @rule(data=st.data(), database=st.booleans())
    def drop(self, data: st.DataObject, database: bool) -> None:
        self.source.next_event()
        chosen = data.draw(st.sampled_from(sorted(self.source.marks)))
        db = chosen.split(".")[0]
        if database:
            self.mapping.drop_database(db)
        else:
            self.mapping.drop_table(chosen)
        for table in list(self.source.marks):
            if table == chosen or (database and table.startswith(db + ".")):
                self.source.forget_table(table)

    @precondition(lambda self: self.source.held)
    @rule(data=st.data())
    def repeat_an_allocation_of_an_open_transaction(self, data: st.DataObject) -> None:
        txn_id, allocation = data.draw(st.sampled_from(self.source.held))
        assert self.mapping.allocate(txn_id, *allocation) is None

    @rule()
    def flush(self) -> None:
        with self.store.transaction() as transaction:
            self.mapping.flush(transaction)
        self.saved = deepcopy(self.source)

    @rule(flushed_before=st.booleans(), failing=st.booleans())
    def restart(self, flushed_before: bool, failing: bool) -> None:
        """Return to the last flush: the events since then are repeated, or replaced by others."""
        if flushed_before:
            self.flush()
        if failing:
            self.fail_to_flush()
        self.mapping = WriteIdMapping()
        self.mapping.load(self.store)
        self.source = deepcopy(self.saved)

    def fail_to_flush(self) -> None:
        with contextlib.suppress(ZeroDivisionError), self.store.transaction() as transaction:
            self.mapping.flush(transaction)
            raise ZeroDivisionError

    @invariant()
    def the_mapping_holds_its_own_invariants(self) -> None:
        self.mapping.check()

    @invariant()
    def transactions_equal_the_facts(self) -> None:
        assert len(self.mapping) == len(self.source.remembered)
        for txn_id in range(1, self.source.txn_id + 1):
            value = self.mapping.get(txn_id)
            assert (
                self.mapping.find_target_txn(txn_id) == self.source.target_txns.get(txn_id) or value is None
            )
            held = [
                a for a in self.source.allocations(txn_id) if self.mapping.holds(txn_id, a.table, a.write_id)
            ]
            assert not self.mapping.holds(txn_id, "sales.orders", 10**6)
            assert (txn_id in self.mapping) == (value is not None)
            if txn_id not in self.source.remembered:
                assert value is None
                assert held == []
                continue
            assert value is not None
            assert tuple(held) == value.allocations
            assert value.allocations == self.source.allocations(txn_id)
            assert value.target_txn == self.source.target_txns.get(txn_id)
            assert set(value.touched) == {x for t, x in self.source.touched if t == txn_id}

    @invariant()
    def written_tables_are_found_under_every_earlier_name(self) -> None:
        for (txn_id, name, write_id), current in self.source.current_names().items():
            if txn_id in self.source.remembered and current is not None:
                assert self.mapping.find_written_table(txn_id, name, write_id) == current

    @invariant()
    def concurrent_write_ids_equal_the_facts(self) -> None:
        for _, (table, write_id, event_id) in self.source.held:
            assert set(self.mapping.find_concurrent(table, write_id)) == self.source.concurrent[event_id]

    @invariant()
    def write_id_lists_equal_the_facts(self) -> None:
        assert self.mapping.tables() == tuple(sorted(self.source.marks))
        for table in TABLE_NAMES:
            assert self.mapping.valid_write_ids(table) == self.source.valid(table)


def test_the_mapping_agrees_with_a_list_of_facts_through_any_history() -> None:
    run_state_machine_as_test(
        MappingMachine,
        settings=settings(
            max_examples=150,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
