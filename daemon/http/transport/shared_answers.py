"""Answers that clients share: metrics are the same for all requests at the same time.

A client that requests the metrics without a pause would otherwise keep one thread busy, and take the
processor from the loops. Requests that arrive in the meantime get that answer, too. So do those that arrive
soon after: for four times as long as it took, and never longer than a second. So these answers take at most a
fifth of one thread, however many clients request them.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar


T = TypeVar("T")
REST_TIMES: Final = 4
"""An answer is valid for this multiple of the time that it took."""
REST_MAX_S: Final = 1.0
KEYS_MAX: Final = 16
"""Clients may vary the form of an answer by their headers."""


@dataclass(slots=True)
class _Answer:
    task: asyncio.Task[Any]
    fresh_until_s: float = float("inf")
    """Infinite while it is made."""


class SharedAnswers:
    """The latest answers of one server, by key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._answers: dict[str, _Answer] = {}

    async def get(self, key: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the answer for ``key``. If there is no fresh one, call ``make``, and raise its error."""
        answer = self._answers.get(key)
        if answer is None or answer.fresh_until_s <= self._clock():
            if len(self._answers) >= KEYS_MAX:
                self._answers.clear()
            answer = self._answers[key] = _Answer(asyncio.get_running_loop().create_task(make()))
            answer.task.add_done_callback(self._finisher(answer, self._clock()))
        result: T = await asyncio.shield(answer.task)
        return result

    def _finisher(self, answer: _Answer, began_s: float) -> Callable[[asyncio.Task[Any]], None]:
        def finish(task: asyncio.Task[Any]) -> None:
            now_s = self._clock()
            failed = task.cancelled() or task.exception() is not None
            rest_s = 0.0 if failed else min(REST_MAX_S, REST_TIMES * (now_s - began_s))
            answer.fresh_until_s = now_s + rest_s

        return finish
