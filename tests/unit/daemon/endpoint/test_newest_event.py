"""One query for many requests, each of which arrived before the query was sent; and many waits on one
position."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count

import pytest

from daemon.endpoint.freshness.index_access import PositionWatch
from daemon.endpoint.freshness.newest_event import Freshness, NewestEvent, Observation
from state.errors import Inconsistent, MetastoreUnavailable
from tests.builders.partitions.index_access import FakeQuery


DEADLINE_S = 20.0
EXACT = Freshness()


class SlowSource:
    """A source whose queries wait until the test lets them end."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.queries = 0

    def send(self) -> None:
        self.queries += 1
        self.begun.release()

    def receive(self) -> int:
        found = self.queries
        assert self.may_end.acquire(timeout=DEADLINE_S)
        return found


def test_requests_that_arrive_during_a_query_share_the_next_one() -> None:
    source, ticks = SlowSource(), count()
    newest = NewestEvent(source, lambda: float(next(ticks)))
    found: list[tuple[float, Observation]] = []

    def request() -> None:
        arrived_s = float(next(ticks))
        arrived.release()
        found.append((arrived_s, newest.begin(EXACT, arrived_s).result()))

    arrived = threading.Semaphore(0)
    threads = [threading.Thread(target=request) for _ in range(9)]
    threads[0].start()
    assert source.begun.acquire(timeout=DEADLINE_S)
    for thread in threads[1:]:
        thread.start()
    for _ in threads:
        assert arrived.acquire(timeout=DEADLINE_S)
    for _ in threads:
        source.may_end.release()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert len(found) == 9
    assert all(observation.sent_s > arrived_s for arrived_s, observation in found)
    assert 2 <= source.queries <= 3, "one for the first request, and one or two for the others"


def test_a_request_that_takes_long_after_its_query_was_sent_delays_no_other() -> None:
    ids, ticks = iter([5, 6, 7]), count()
    newest = NewestEvent(FakeQuery(lambda: next(ids)), lambda: float(next(ticks)))
    slow = newest.begin(EXACT, 0.0)
    abandoned = newest.begin(EXACT, 1.0)
    assert newest.begin(EXACT, 2.0).result().event_id == 6, (
        "the slow request's query is finished, and another one made"
    )
    assert slow.result().event_id == 6
    assert abandoned.result().event_id == 6
    assert newest.known_id == 6


@pytest.mark.parametrize("fails_when_sent", [True, False])
def test_a_failed_query_fails_its_requests_and_no_later_one(fails_when_sent: bool) -> None:
    results: Iterator[Exception | int] = iter([MetastoreUnavailable("down"), KeyError("a defect"), 7])

    class Query(FakeQuery):
        def receive(self) -> int:
            return super().receive() if fails_when_sent else self._query()

        def send(self) -> None:
            if fails_when_sent:
                super().send()

    def query() -> int:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    newest = NewestEvent(Query(query), lambda: 1.0)
    with pytest.raises(MetastoreUnavailable):
        newest.begin(EXACT, 1.0).result()
    with pytest.raises(KeyError):
        newest.begin(EXACT, 1.0).result()
    assert newest.begin(EXACT, 1.0).result().event_id == 7


def test_a_newest_event_that_goes_backwards_is_reported_until_it_has_caught_up() -> None:
    ids, ticks = iter([9, 8, 9]), count()
    newest = NewestEvent(FakeQuery(lambda: next(ids)), lambda: float(next(ticks)))
    assert newest.begin(EXACT, 0.0).result().event_id == 9
    with pytest.raises(Inconsistent):
        newest.begin(EXACT, 1.0).result()
    assert newest.begin(EXACT, 3.0).result().event_id == 9


def test_many_threads_wait_for_one_position_and_one_of_them_reads_it() -> None:
    lock, readers, most = threading.Lock(), [0], [0]
    positions = count(1)

    def read() -> int:
        with lock:
            readers[0] += 1
            most[0] = max(most[0], readers[0])
            found = next(positions)
        with lock:
            readers[0] -= 1
        return found

    watch = PositionWatch(read, pause=lambda _: None)
    reached: list[bool] = []
    threads = [
        threading.Thread(target=lambda at=at: reached.append(watch.wait(at, DEADLINE_S)))
        for at in range(10, 200, 10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert reached == [True] * len(threads)
    assert most == [1]


def test_a_wait_that_times_out_says_so() -> None:
    now = count()
    watch = PositionWatch(lambda: 4, lambda: float(next(now)), lambda _: None)
    assert not watch.wait(5, 10.0)
    assert watch.wait(4, 10.0)
