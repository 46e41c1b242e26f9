"""The fetched records of all readers together have one limit."""

from __future__ import annotations

from functools import partial

from daemon.consumer.fetch_budget import SHARE_BYTES_MIN, FetchBudget
from daemon.consumer.fetcher import _Queue
from daemon.kafka.broker import TopicRecord


MB = 1 << 20


def test_readers_have_equal_shares_up_to_their_own_limits_and_a_least_one() -> None:
    budget = FetchBudget(8 * MB)
    readers = [object() for _ in range(1_000)]
    assert budget.share(32 * MB) == 8 * MB
    for reader in readers[:4]:
        budget.join(reader)
    assert (budget.share(32 * MB), budget.share(MB)) == (2 * MB, MB)
    for reader in readers:
        budget.join(reader)
    assert budget.share(32 * MB) == SHARE_BYTES_MIN
    for reader in readers[1:]:
        budget.leave(reader)
    assert budget.share(32 * MB) == 8 * MB


def test_a_reader_fetches_nothing_while_it_holds_more_than_its_share() -> None:
    budget = FetchBudget(8 * MB)
    readers = [object() for _ in range(4)]
    budget.join(readers[0])
    queue = _Queue(2_000, partial(budget.share, 32 * MB))
    queue.put([TopicRecord(0, b"x" * 3 * MB)], ended=False, lost=None, failure=None)
    assert queue.wait_for_room(0)
    for reader in readers:
        budget.join(reader)
    assert not queue.wait_for_room(0)
    for reader in readers[1:]:
        budget.leave(reader)
    assert queue.wait_for_room(0)
