"""Clients take turns in the queue of requests, and none can fill it for others."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from daemon.http.transport.fair_queue import FairQueue


def queue_of(clients: str) -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue()
    for number, client in enumerate(clients):
        queue.put(client, f"{client}{number}")
    return queue


def drain(queue: FairQueue[str]) -> list[str]:
    queue.close()
    return list(iter(queue.take, None))


def test_clients_take_turns() -> None:
    assert drain(queue_of("aaaabb")) == ["a0", "b4", "a1", "b5", "a2", "a3"]


def test_the_newest_request_of_the_largest_client_gives_way_to_one_with_fewer() -> None:
    queue = queue_of("aaab")
    assert queue.displace("c") == "a2"
    assert queue.displace("b") is None
    assert queue.displace("a") is None
    assert drain(queue) == ["a0", "b3", "a1"]


def test_nothing_gives_way_if_each_client_has_one() -> None:
    assert queue_of("abc").displace("d") is None
    assert queue_of("").displace("a") is None


@given(st.text("abc"))
def test_every_task_is_taken_once_and_each_clients_in_order(clients: str) -> None:
    taken = drain(queue_of(clients))
    assert Counter(task[0] for task in taken) == Counter(clients)
    for client in "abc":
        numbers = [int(task[1:]) for task in taken if task[0] == client]
        assert numbers == sorted(numbers)
