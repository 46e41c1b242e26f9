"""Clients that ask at the same time share an answer, and making answers takes a bounded share of a thread."""

from __future__ import annotations

import asyncio

import pytest

from daemon.http.transport.shared_answers import KEYS_MAX, REST_MAX_S, SharedAnswers
from state.errors import Overloaded


class Making:
    """Makes answers, each of which takes a time."""

    def __init__(self, takes_s: float) -> None:
        self.now_s = 0.0
        self.takes_s = takes_s
        self.made = 0
        self.shared = SharedAnswers(lambda: self.now_s)

    async def make(self) -> int:
        await asyncio.sleep(0)
        self.now_s += self.takes_s
        self.made += 1
        return self.made

    async def ask(self, number: int = 1, key: str = "metrics") -> list[int]:
        return await asyncio.gather(*(self.shared.get(key, self.make) for _ in range(number)))


def test_requests_that_arrive_while_an_answer_is_made_get_that_answer() -> None:
    making = Making(0.0)
    assert asyncio.run(making.ask(500)) == [1] * 500


@pytest.mark.parametrize(("takes_s", "rest_s"), [(0.01, 0.04), (10.0, REST_MAX_S)])
def test_an_answer_is_given_to_others_for_a_time_that_follows_from_its_cost(
    takes_s: float, rest_s: float
) -> None:
    async def run() -> None:
        making = Making(takes_s)
        assert await making.ask() == [1]
        making.now_s += rest_s * 0.9
        assert await making.ask() == [1]
        making.now_s += rest_s * 0.2
        assert await making.ask() == [2]

    asyncio.run(run())


def test_an_error_is_raised_for_everyone_who_waits_and_is_not_kept() -> None:
    async def run() -> None:
        making = Making(1.0)

        async def fail() -> int:
            await making.make()
            raise Overloaded("busy")

        answers = await asyncio.gather(
            *(making.shared.get("metrics", fail) for _ in range(3)), return_exceptions=True
        )
        assert [type(each) for each in answers] == [Overloaded] * 3
        assert making.made == 1
        assert await making.ask() == [2]

    asyncio.run(run())


def test_a_client_that_leaves_takes_no_answer_from_others() -> None:
    async def run() -> None:
        making = Making(0.0)
        leaving = asyncio.ensure_future(making.ask())
        staying = asyncio.ensure_future(making.ask())
        await asyncio.sleep(0)
        leaving.cancel()
        assert await staying == [1]

    asyncio.run(run())


def test_clients_that_vary_the_form_do_not_fill_the_memory() -> None:
    async def run() -> None:
        making = Making(1.0)
        for number in range(10 * KEYS_MAX):
            await making.ask(key=str(number))
        assert len(making.shared._answers) <= KEYS_MAX

    asyncio.run(run())
