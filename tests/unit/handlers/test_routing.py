"""A projection that receives only the events routed to it has the same effects as one that receives all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.events import (
    DatabaseCreated,
    Event,
    FilesWritten,
    TxnAborted,
    TxnCommitted,
    TxnsOpened,
    Undecodable,
    Unhandled,
    WriteIdsAllocated,
)
from handlers.replication.dispatch import Dispatcher
from handlers.routing import EventRouter, Interest, Route
from state.errors import MalformedEvent
from tests.builders.replication.replay_events import (
    a_table,
    aborted,
    allocated,
    changed,
    committed,
    created,
    written,
)


DBS = ("a", "b", "c", "d", "e")


@dataclass
class Source:
    """The log of a source with five databases; each transaction may write into several of them."""

    events: list[Event] = field(default_factory=list)
    open: dict[int, list[str]] = field(default_factory=dict)
    txns: int = 0

    def do(self, choice: int) -> None:
        """Make one of the changes that are possible now."""
        db, other = DBS[choice % 5], DBS[choice // 5 % 5]
        at = self.events[-1].event_id + 1 if self.events else 1
        txn_id = sorted(self.open)[choice // 25 % len(self.open)] if self.open else 0
        match choice // 100 % 10:
            case 0 | 1:
                first, self.txns = self.txns + 1, self.txns + 2
                self.open.update({first: [], self.txns: []})
                self.events.append(
                    TxnsOpened(event_id=at, time_s=0, kind="OPEN_TXN", first=first, last=self.txns)
                )
            case 2 | 3 | 4 if txn_id:
                self.open[txn_id].append(db)
                self.events.append(replace(allocated(at, txn_id, at), db=db))
            case 5 | 6 if txn_id:
                self._commit(at, txn_id)
            case 7 if txn_id:
                del self.open[txn_id]
                self.events.append(aborted(at, txn_id))
            case 8:
                moved = changed(at, a_table("t", db=db), a_table("t", db=other))
                self.events.append(replace(moved, db=other))
            case _:
                self.events.append(self._make_other(at, db, choice))

    def _commit(self, at: int, txn_id: int) -> None:
        dbs = self.open.pop(txn_id)
        parts = len(dbs) + 1
        for part, db in enumerate(dbs):
            self.events.append(replace(written(at, txn_id=txn_id, part=part, parts=parts), db=db))
        self.events.append(committed(at, txn_id, part=parts - 1, parts=parts))

    def _make_other(self, at: int, db: str, choice: int) -> Event:
        header: dict[str, Any] = {"event_id": at, "time_s": 0, "kind": "K"}
        others: Sequence[Event] = (
            replace(created(at), db=db),
            DatabaseCreated(**header, db=db),
            DatabaseCreated(**header, db=db, catalog="spark"),
            Undecodable(**header, error=MalformedEvent("unreadable")),
            Undecodable(**header, db=db, error=MalformedEvent("unreadable")),
            Unhandled(**header, is_known=False),
        )
        return others[choice % len(others)]


class Policy:
    """What a policy of one database knows, and which events take effect on it."""

    def __init__(self, db: str, known: Iterable[int] = (), unknown_txn_id: int = -1) -> None:
        self.known = set(known)
        self.interest = Interest(frozenset({db}), unknown_txn_id)
        self.effects: list[Event] = []
        self.db = db
        self._unknown_txn_id = unknown_txn_id

    def is_known(self, txn_id: int) -> bool:
        return txn_id in self.known or txn_id <= self._unknown_txn_id

    def receive(self, event: Event) -> None:
        policy: Any = SimpleNamespace(source_db=self.db, covers_db=lambda db: db == self.db)
        dispatcher: Any = SimpleNamespace(transactions=self, _context=SimpleNamespace(policy=policy))
        if Dispatcher.may_take_effect(dispatcher, event):
            self.effects.append(event)
        if isinstance(event, WriteIdsAllocated) and event.db == self.db:
            self.known.update(txn_id for txn_id, _ in event.pairs)
        if isinstance(event, TxnCommitted | TxnAborted):
            self.known.discard(event.txn_id)


@given(
    st.lists(st.integers(0, 9999), max_size=120),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(-1, 6),
    st.integers(2, 50),
)
def test_a_policy_that_joins_at_any_event_has_the_same_effects_as_one_that_receives_everything(
    choices: list[int], read_from: float, joins_at: float, unknown_txn_id: int, open_txns_max: int
) -> None:
    source = Source()
    for choice in choices:
        source.do(choice)
    join = int(joins_at * len(source.events))
    start = int(read_from * join)
    router = EventRouter(open_txns_max)
    for event in source.events[start:join]:
        router.route(event, DBS)
    routed = [(event, router.route(event, DBS)) for event in source.events[join:]]
    for db in DBS:
        naive = Policy(db, unknown_txn_id=unknown_txn_id)
        for event in source.events[:join]:
            naive.receive(event)
        one = Policy(db, naive.known, unknown_txn_id)
        naive.effects.clear()
        for event, route in routed:
            naive.receive(event)
            if route.concerns(one.interest):
                one.receive(event)
        assert one.effects == naive.effects, db


def opened(event_id: int, txn_id: int) -> TxnsOpened:
    return TxnsOpened(event_id=event_id, time_s=0, kind="OPEN_TXN", first=txn_id, last=txn_id)


def test_the_end_of_a_transaction_concerns_all_databases_that_it_wrote_into_and_no_other() -> None:
    router = EventRouter()
    log = [opened(1, 7), replace(allocated(2, 7, 1), db="a"), replace(allocated(3, 7, 1), db="b")]
    for event in log:
        router.route(event, DBS)
    assert router.route(committed(4, 7), DBS).databases == frozenset({"a", "b"})


def test_the_end_of_a_transaction_without_writes_concerns_nobody() -> None:
    router = EventRouter()
    router.route(opened(1, 7), DBS)
    assert router.route(committed(2, 7), DBS) == Route(frozenset(), 7)
    assert router.route(opened(3, 8), DBS).databases == frozenset()


def test_the_end_of_a_transaction_that_was_open_before_concerns_everyone() -> None:
    router = EventRouter()
    router.route(replace(allocated(2, 7, 1), db="a"), DBS)
    assert router.route(aborted(3, 7), DBS).databases is None


def test_files_concern_the_database_that_they_name_and_those_that_hold_their_transaction() -> None:
    router = EventRouter()
    router.route(opened(1, 7), DBS)
    router.route(replace(allocated(2, 7, 1), db="a"), DBS)
    files = replace(written(3, txn_id=7), db="b")
    assert isinstance(files, FilesWritten)
    assert router.route(files, DBS).databases == frozenset({"a", "b"})


def test_a_table_that_is_moved_concerns_both_databases() -> None:
    moved = replace(changed(1, a_table("t", db="a"), a_table("t", db="b")), db="b")
    assert EventRouter().route(moved, DBS).databases == frozenset({"a", "b"})


@pytest.mark.parametrize(("interest", "concerned"), [(Interest(), True), (Interest(frozenset({"a"})), False)])
def test_the_events_of_another_catalog_are_passed_to_those_who_follow_everything(
    interest: Interest, concerned: bool
) -> None:
    foreign = DatabaseCreated(event_id=1, time_s=0, kind="CREATE_DATABASE", db="a", catalog="spark")
    assert EventRouter().route(foreign, DBS).concerns(interest) is concerned
