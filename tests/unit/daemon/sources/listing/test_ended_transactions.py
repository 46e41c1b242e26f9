"""The relay forgets transactions that have ended without an event."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import pytest

from daemon.sources.listing.ended_transactions import EndedTransactions
from daemon.sources.log_connections import LogConnections, NotificationLog
from state.errors import MetastoreUnavailable, TidelineError
from state.transactions.open_candidates import OpenCandidates
from tests.builders.kafka.fake_log import ListedLog


R = TypeVar("R")
NEWEST = 7


class AnswersAtOnce(LogConnections):
    """Calls the function immediately."""

    def __init__(self, log: ListedLog) -> None:
        super().__init__(log.connect, 1, "test")
        self.log = log
        self.error: TidelineError | None = None

    def submit(self, function: Callable[[NotificationLog], R]) -> Future[R]:
        answer: Future[R] = Future()
        if self.error is not None:
            answer.set_exception(self.error)
        else:
            answer.set_result(function(self.log))
        return answer


@pytest.fixture
def candidates() -> OpenCandidates:
    """Transactions 1 and 2, of which the metastore has only the second."""
    known = OpenCandidates(knows_all=True)
    for txn_id in (1, 2):
        known.allocate(txn_id, "sales.t", txn_id, event_id=txn_id, time_s=0)
    return known


@pytest.fixture
def pool() -> AnswersAtOnce:
    log = ListedLog()
    log.current, log.open_txn_ids = NEWEST, {2}
    return AnswersAtOnce(log)


def test_a_transaction_without_an_end_in_the_log_is_forgotten_once_the_log_is_read(
    pool: AnswersAtOnce, candidates: OpenCandidates
) -> None:
    ended = EndedTransactions(pool, lambda: 0.0, ask_s=0)
    ended.forget(candidates, 5)
    ended.forget(candidates, NEWEST - 1)
    assert candidates.txn_ids == {1, 2}, "event 7 may be its commit"
    ended.forget(candidates, NEWEST)
    assert candidates.txn_ids == {2}
    assert candidates.first_event_id == 2


def test_a_transaction_that_began_after_the_question_is_kept(
    pool: AnswersAtOnce, candidates: OpenCandidates
) -> None:
    ended = EndedTransactions(pool, lambda: 0.0, ask_s=0)
    ended.forget(candidates, 5)
    candidates.allocate(3, "sales.t", 3, event_id=6, time_s=0)
    ended.forget(candidates, NEWEST)
    assert candidates.txn_ids == {2, 3}


@pytest.mark.parametrize(("still_open", "is_known"), [({1}, False), ({3}, True), (set(), True)])
def test_nothing_is_unknown_once_no_transaction_of_before_is_open(
    pool: AnswersAtOnce, still_open: set[int], is_known: bool
) -> None:
    candidates = OpenCandidates()
    candidates.open(2)
    pool.log.open_txn_ids = still_open
    ended = EndedTransactions(pool, lambda: 0.0, ask_s=0)
    for _ in range(2):
        ended.forget(candidates, NEWEST)
    assert candidates.knows_all is is_known


def test_the_metastore_is_asked_seldom(pool: AnswersAtOnce, candidates: OpenCandidates) -> None:
    times_s = iter((0.0, 10.0, 590.0, 601.0))
    ended = EndedTransactions(pool, lambda: next(times_s), ask_s=600)
    for _ in range(2):
        ended.forget(candidates, NEWEST)
    assert candidates.txn_ids == {1, 2}
    for _ in range(2):
        ended.forget(candidates, NEWEST)
    assert candidates.txn_ids == {2}


def test_a_failure_is_not_one_of_the_relay(pool: AnswersAtOnce, candidates: OpenCandidates) -> None:
    ended = EndedTransactions(pool, lambda: 0.0, ask_s=0)
    pool.error = MetastoreUnavailable("it does not answer")
    ended.forget(candidates, NEWEST)
    ended.forget(candidates, NEWEST)
    assert candidates.txn_ids == {1, 2}
    pool.error = None
    ended.forget(candidates, NEWEST)
    ended.forget(candidates, NEWEST)
    assert candidates.txn_ids == {2}
