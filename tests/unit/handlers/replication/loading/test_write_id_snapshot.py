"""The write ids of a table that is loaded: what is open, who holds it, and what was aborted, although Hive
may cut its answers."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.replication.loading.table.write_id_snapshot import WriteIdStates, wait_for_open_write_ids
from handlers.structs.transactions import TxnState
from state.errors import TransactionsOpen, TxnNotOpen
from state.transactions.valid_write_ids import ValidWriteIds


class NaiveSource:
    """Transactions with at most one write id each. Like Hive it returns only the lowest invalid id if all of
    them are invalid."""

    def __init__(self, states: Sequence[str]) -> None:
        self.states = dict(enumerate(states, 1))
        """Of the write ids, which transactions 101, 102 and so on hold."""
        self.aborts: list[int] = []

    def open_txns_info(self) -> Any:
        codes = {"open": TxnState.OPEN, "aborted": TxnState.ABORTED}
        listed = [SimpleNamespace(id=100 + n, state=codes[s]) for n, s in self.states.items() if s in codes]
        return SimpleNamespace(open_txns=listed, txn_high_water_mark=100 + len(self.states))

    def valid_write_ids(self, names: list[str], valid_txns: str | None = None) -> list[ValidWriteIds]:
        states = dict(self.states)
        if valid_txns is not None:
            opened = {int(txn) for txn in valid_txns.split(":")[2].split(",") if txn}
            states = {n: "open" if 100 + n in opened else "committed" for n in states}
        by_state = {name: [n for n, s in states.items() if s == name] for name in ("open", "aborted")}
        invalid = sorted(by_state["open"] + by_state["aborted"])
        mark = max(states, default=0)
        if states and len(invalid) == len(states):  # all are invalid: cut
            mark = invalid[0]
        kept = {name: tuple(n for n in ids if n <= mark) for name, ids in by_state.items()}
        return [ValidWriteIds(names[0], mark, kept["open"], kept["aborted"])]


STATES = st.lists(st.sampled_from(["open", "aborted", "committed"]), max_size=8)


@given(STATES, st.integers(0, 9))
def test_open_ids_and_their_holders_are_those_of_a_naive_source(states: list[str], mark: int) -> None:
    found = WriteIdStates(NaiveSource(states), "db", "t", mark)  # type: ignore[arg-type]
    opened = [n for n, state in enumerate(states, 1) if state == "open" and n <= mark]
    assert set(found.find_holders()) == {100 + n for n in opened}
    assert found.is_any_open() == bool(opened)


@given(st.lists(st.sampled_from(["aborted", "committed"]), max_size=8), st.integers(0, 9))
def test_once_nothing_is_open_all_aborted_ids_up_to_the_mark_are_known(states: list[str], mark: int) -> None:
    found = WriteIdStates(NaiveSource(states), "db", "t", mark)  # type: ignore[arg-type]
    aborted = tuple(n for n, state in enumerate(states, 1) if state == "aborted" and n <= mark)
    assert found.read_ended() == ValidWriteIds("db.t", mark, (), aborted)


class Waiting:
    """The tools and the progress of a load; each pause runs the next of ``then``."""

    def __init__(self, source: NaiveSource, *, abort: bool, timeout_s: float = 0.0) -> None:
        self.source = source
        self.reports: list[tuple[int, ...]] = []
        self.then: list[tuple[int, str]] = []
        self.settings = SimpleNamespace(
            open_transaction_timeout_s=timeout_s, abort_open_transactions=abort, poll_s=0.0
        )
        self.policy = SimpleNamespace(source_db="db")
        self.stopping = SimpleNamespace(wait=self._pause)
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        assert self.steps < 100

    def waiting(self, _table: str, transactions: Sequence[int]) -> None:
        self.reports.append(tuple(transactions))

    def _pause(self, _seconds: float) -> None:
        if self.then:
            write_id, state = self.then.pop(0)
            self.source.states[write_id] = state

    def run(self, mark: int) -> None:
        tools: Any = self
        wait_for_open_write_ids(WriteIdStates(tools.source, "db", "t", mark), "t", tools, tools)


def test_a_load_waits_until_the_writes_have_ended_and_reports_whom_it_waits_for() -> None:
    source = NaiveSource(["committed", "open", "open", "open"])
    load = Waiting(source, abort=False, timeout_s=1000.0)
    load.then = [(3, "committed"), (2, "aborted")]
    load.run(mark=3)
    assert load.reports == [(102, 103), ()]
    assert source.states[4] == "open", "it is above the mark"


def test_a_load_without_open_writes_does_not_wait() -> None:
    load = Waiting(NaiveSource(["aborted", "open"]), abort=False)
    load.run(mark=1)
    assert (load.reports, load.steps) == ([], 0)


def test_after_the_time_the_transactions_are_named() -> None:
    load = Waiting(NaiveSource(["open", "committed", "open"]), abort=False)
    with pytest.raises(TransactionsOpen) as refusal:
        load.run(mark=3)
    assert refusal.value.context["transactions"] == [101, 103]
    assert refusal.value.context["table"] == "db.t"


def test_after_the_time_the_transactions_are_aborted_if_that_is_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = NaiveSource(["open", "committed", "open", "open"])

    def abort_txn(txn_id: int) -> None:
        source.states[txn_id - 100] = "aborted" if txn_id != 103 else "committed"
        source.aborts.append(txn_id)
        if txn_id == 103:
            raise TxnNotOpen("it was committed meanwhile", txn_id=txn_id)

    monkeypatch.setattr(source, "abort_txn", abort_txn, raising=False)
    load = Waiting(source, abort=True)
    load.run(mark=3)
    assert source.aborts == [101, 103]
    assert load.reports == [(101, 103), ()]
