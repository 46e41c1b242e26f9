"""Transactions are opened while others are being replayed, and never after their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Event as Flag

import pytest

from handlers.events import Event
from handlers.replication.transactions import transactions_ahead
from handlers.replication.transactions.lookahead import OPENED_MAX
from handlers.replication.transactions.transactions_ahead import TransactionsAhead
from state.errors import AmbiguousCall, InvalidRequest, MetastoreUnavailable, TidelineError
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.replay_events import allocated, altered, committed, created


WAIT_S = 20.0
"""After so long, a test whose calls do not overlap fails."""


@pytest.fixture
def overlapping(tmp_path: Path) -> Iterator[FakedReplica]:
    """A replica that opens transactions beside replay, with two tables."""
    made = faked_replica(tmp_path, lanes=1)
    made.projection.apply([created(1), created(2, "other")])
    yield made
    made.projection.close()


def inserts(first: int, txns: range, *, table: str = "orders", write_id: int = 1) -> list[Event]:
    """Return the events of small transactions, one after the other."""
    events: list[Event] = []
    for at, txn in enumerate(txns):
        events += [allocated(first + 2 * at, txn, write_id + at, table)]
        events += [committed(first + 2 * at + 1, txn)]
    return events


def before(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch, call: str, do: Callable[[int], object]
) -> None:
    """Do something in front of every such call on the target, with the source transaction."""
    otherwise = getattr(replica.target, call)

    def do_before(policy: str, txn_id: int, *given: object) -> object:
        do(txn_id)
        return otherwise(policy, txn_id, *given)

    monkeypatch.setattr(replica.target, call, do_before)


def require_replayed(replica: FakedReplica, **write_ids: int) -> None:
    """Assert that the target has these write ids, no transaction open, and nothing damaged."""
    target = replica.target
    assert (target.write_ids, target.open_txns, target.damaged, target.reopened) == (write_ids, [], [], [])


def test_later_transactions_are_opened_while_the_first_is_being_committed(
    overlapping: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for the other here: the first commit for the last opening, and that one for the first commit
    to be sent."""
    is_committing, is_opening = Flag(), Flag()

    def commit(txn_id: int) -> None:
        if txn_id == 1:
            is_committing.set()
            assert is_opening.wait(WAIT_S)

    def begin(txn_id: int) -> None:
        if txn_id == 30:
            assert is_committing.wait(WAIT_S)
            is_opening.set()

    before(overlapping, monkeypatch, "commit_replayed", commit)
    before(overlapping, monkeypatch, "open_replayed", begin)
    overlapping.projection.apply(inserts(3, range(1, 31)))
    require_replayed(overlapping, orders=30)


def test_transactions_of_many_tables_are_opened_ahead_although_nothing_is_joined(
    overlapping: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_opening = Flag()
    before(
        overlapping, monkeypatch, "open_replayed", lambda txn_id: is_opening.set() if txn_id == 3 else None
    )
    before(overlapping, monkeypatch, "commit_replayed", lambda _txn_id: is_opening.wait(WAIT_S))
    events = [*inserts(3, range(1, 3)), *inserts(7, range(3, 4), table="other")]
    overlapping.projection.apply(events)
    assert is_opening.is_set()
    require_replayed(overlapping, orders=2, other=1)


def test_more_transactions_than_are_opened_ahead_are_all_replayed(overlapping: FakedReplica) -> None:
    count = 2 * OPENED_MAX + 30
    overlapping.projection.apply(inserts(3, range(1, count + 1)))
    assert overlapping.target.calls.count("open_replayed") == count
    require_replayed(overlapping, orders=count)


@pytest.mark.parametrize("failing", [1, 5, 12, 20])
@pytest.mark.parametrize("error", [InvalidRequest("no"), MetastoreUnavailable("none answers")])
def test_a_transaction_that_could_not_be_opened_ahead_is_opened_at_its_turn(
    overlapping: FakedReplica, monkeypatch: pytest.MonkeyPatch, failing: int, error: TidelineError
) -> None:
    errors = {failing: [error]}

    def fail(txn_id: int) -> None:
        if errors.get(txn_id):
            raise errors[txn_id].pop()

    before(overlapping, monkeypatch, "open_replayed", fail)
    overlapping.projection.apply(inserts(3, range(1, 21)))
    require_replayed(overlapping, orders=20)


def test_after_an_error_nothing_is_being_opened_and_the_next_run_finds_what_is_open(
    overlapping: FakedReplica,
) -> None:
    events = inserts(3, range(1, 41))
    overlapping.target.fails("commit_replayed", AmbiguousCall("sent, but no answer came"))
    with pytest.raises(AmbiguousCall):
        overlapping.projection.apply(events)
    calls = len(overlapping.target.calls)
    position = overlapping.restart().open()
    left = [each for each in events if not position.covers(each.event_id, each.part)]
    assert overlapping.target.calls[calls:].count("open_replayed") == 0
    overlapping.projection.apply(left)
    require_replayed(overlapping, orders=40)


def test_transactions_whose_table_was_quarantined_while_they_were_being_opened_are_aborted_at_their_end(
    overlapping: FakedReplica,
) -> None:
    events = inserts(3, range(1, 21))
    overlapping.target.fails("alter_table", InvalidRequest("no"))
    overlapping.projection.apply([*events[:2], altered(5), *inserts(6, range(2, 21), write_id=2)])
    assert overlapping.stored_quarantine() == {"orders": "invalid-request"}
    assert overlapping.target.open_txns == []
    assert overlapping.target.reopened == []


def test_what_has_not_begun_when_replay_needs_it_or_the_batch_ends_is_never_opened(
    overlapping: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replay may end these transactions right after that."""
    begun, goes_on = Flag(), Flag()

    def hold(txn_id: int) -> None:
        if txn_id == 1:
            begun.set()
            assert goes_on.wait(WAIT_S)

    before(overlapping, monkeypatch, "open_replayed", hold)
    openings = TransactionsAhead(overlapping.context)
    openings.start([1, 2, 3])
    assert begun.wait(WAIT_S)
    assert openings.find(2) is None
    goes_on.set()
    assert openings.find(1) is not None
    openings.stop()
    known = [txn_id for txn_id in (1, 2, 3) if openings.is_open(txn_id)]
    openings.close()
    assert overlapping.target.open_txns == known
    assert 2 not in known


def test_openings_that_are_cancelled_at_the_end_of_a_batch_are_forgotten(
    overlapping: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first opening ends only after the others were cancelled."""
    begun, goes_on = Flag(), Flag()

    def hold(txn_id: int) -> None:
        begun.set()
        assert txn_id == 1
        assert goes_on.wait(WAIT_S)

    def wait_for(started: Sequence[Future[int | None]]) -> None:
        goes_on.set()
        wait(started)

    before(overlapping, monkeypatch, "open_replayed", hold)
    monkeypatch.setattr(transactions_ahead, "wait", wait_for)
    openings = TransactionsAhead(overlapping.context)
    openings.start([1, 2, 3])
    assert begun.wait(WAIT_S)
    openings.stop()
    assert [txn_id for txn_id in (1, 2, 3) if openings.is_open(txn_id)] == [1]
    openings.close()
    assert overlapping.target.open_txns == [1]
