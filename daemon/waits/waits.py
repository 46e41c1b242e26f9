"""Waits for conditions, thousands at once, without a thread for each and without polling.

Each wait is a task of the event loop. One thread checks the conditions: each when its first wait begins, and
again when a projection has moved that can make it true. Moves that arrive during a check are joined, so that
a fast source does not queue work here.

No move is lost: a wait is registered before its condition is checked first, and a projection moves before it
reports that.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from daemon.waits.conditions import Condition, Reached
from daemon.waits.metrics import WaitMetrics
from state.errors import Interrupted, NotYet, Overloaded


CHECK_S: Final = 10.0
"""How long the first check of a condition may take if the wait itself is shorter."""


@dataclass(eq=False, slots=True)
class _Waiter:
    """One wait; its futures belong to the event loop."""

    loop: asyncio.AbstractEventLoop
    checked: asyncio.Future[Reached]
    """The result of the first check."""
    answered: asyncio.Future[Reached]
    """The result that is true."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """All waits for equal conditions."""

    condition: Condition
    waiters: dict[_Waiter, None] = field(default_factory=dict)
    last: Reached = field(default_factory=lambda: Reached(is_true=False))


class Waits:
    """All waits of a daemon."""

    def __init__(self, waits_max: int, metrics: WaitMetrics) -> None:
        self._waits_max = waits_max
        self._metrics = metrics
        self._changed = threading.Condition()
        # The lock of the condition variable protects all of the following.
        self._waiting: dict[Condition, _Waiting] = {}
        self._by_projection: dict[str, dict[_Waiting, None]] = {}
        self._due: dict[_Waiting, None] = {}
        self._moved: set[str] = set()
        self._number = 0
        self._is_started = False
        self._is_closed = False

    def moved(self, projection: str) -> None:
        """Check the conditions that depend on ``projection``; returns immediately, in any thread."""
        with self._changed:
            if projection in self._by_projection:
                self._moved.add(projection)
                self._changed.notify()

    def close(self) -> None:
        """End all waits with Interrupted, and refuse further ones."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
            ended = [waiter for waiting in self._waiting.values() for waiter in waiting.waiters]
        _call(ended, partial(_fail, error=_stopping()))

    async def wait(self, condition: Condition, timeout_s: float) -> Reached:
        """Return once the condition is true; raise NotYet, Overloaded, Interrupted, and the errors of
        ``check``.

        Checks the condition at least once, even with a timeout of 0.
        """
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop, loop.create_future(), loop.create_future())
        waiting = self._add(condition, waiter)
        result = "left"
        try:
            reached = await self._reach(waiter, timeout_s)
        except TimeoutError:
            result = "timeout"
            raise _not_yet(waiting.last, timeout_s) from None
        except Exception:
            result = "failed"
            raise
        else:
            result = "true"
            return reached
        finally:
            self._metrics.ended.labels(result).inc()
            self._remove(waiting, waiter)

    async def _reach(self, waiter: _Waiter, timeout_s: float) -> Reached:
        started_s = waiter.loop.time()
        async with asyncio.timeout(max(timeout_s, CHECK_S)):
            first = await waiter.checked
        if first.is_true:
            return first
        async with asyncio.timeout(max(0.0, started_s + timeout_s - waiter.loop.time())):
            return await waiter.answered

    def _add(self, condition: Condition, waiter: _Waiter) -> _Waiting:
        with self._changed:
            if self._is_closed:
                raise _stopping()
            if self._number >= self._waits_max:
                self._metrics.ended.labels("refused").inc()
                raise Overloaded("too many requests are waiting for a condition", limit=self._waits_max)
            self._number += 1
            self._metrics.present.set(self._number)
            waiting = self._waiting.get(condition)
            if waiting is None:
                waiting = self._waiting[condition] = _Waiting(condition)
                for projection in condition.projections:
                    self._by_projection.setdefault(projection, {})[waiting] = None
            waiting.waiters[waiter] = None
            self._due[waiting] = None
            self._start()
            self._changed.notify()
            return waiting

    def _remove(self, waiting: _Waiting, waiter: _Waiter) -> None:
        with self._changed:
            self._number -= 1
            self._metrics.present.set(self._number)
            del waiting.waiters[waiter]
            if waiting.waiters:
                return
            del self._waiting[waiting.condition]
            self._due.pop(waiting, None)
            for projection in waiting.condition.projections:
                of_projection = self._by_projection[projection]
                of_projection.pop(waiting, None)
                if not of_projection:
                    del self._by_projection[projection]

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._check_all, name="waits", daemon=True).start()

    def _check_all(self) -> None:
        """Make the due checks, until the end of the waits."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._due or self._moved or self._is_closed)
                if self._is_closed:
                    return
                due = list(self._take_due())
            for waiting in due:
                self._check(waiting)

    def _take_due(self) -> Iterator[_Waiting]:
        for projection in self._moved:
            self._due |= self._by_projection.get(projection, {})
        self._moved.clear()
        due, self._due = self._due, {}
        yield from due

    def _check(self, waiting: _Waiting) -> None:
        with self._changed:
            # Those who come later make the condition due again.
            waiters = list(waiting.waiters)
        if not waiters:
            return
        deliver: Callable[[_Waiter], None]
        try:
            reached = waiting.last = waiting.condition.check()
            deliver = partial(_deliver, reached=reached)
        except BaseException as error:  # noqa: BLE001 - it is raised where the condition is waited for
            deliver = partial(_fail, error=error)
        _call(waiters, deliver)


def _call(waiters: Iterable[_Waiter], deliver: Callable[[_Waiter], None]) -> None:
    """Have the event loop deliver to each waiter, in one call: each call wakes the loop and costs a system
    call, and thousands of them took longer than the answers.
    """
    by_loop: dict[asyncio.AbstractEventLoop, list[_Waiter]] = {}
    for waiter in waiters:
        by_loop.setdefault(waiter.loop, []).append(waiter)
    for loop, each in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended, and no one waits any more
            loop.call_soon_threadsafe(_deliver_all, each, deliver)


def _deliver_all(waiters: Iterable[_Waiter], deliver: Callable[[_Waiter], None]) -> None:
    for waiter in waiters:
        deliver(waiter)


def _deliver(waiter: _Waiter, reached: Reached) -> None:
    if not waiter.checked.done():
        waiter.checked.set_result(reached)
    if reached.is_true and not waiter.answered.done():
        waiter.answered.set_result(reached)


def _fail(waiter: _Waiter, error: BaseException) -> None:
    for future in (waiter.checked, waiter.answered):
        if not future.done():
            future.set_exception(error)
            future.exception()  # one of the two may have no waiter any more


def _stopping() -> Interrupted:
    return Interrupted("the daemon is stopping", hint="Repeat the request once the daemon runs again.")


def _not_yet(last: Reached, timeout_s: float) -> NotYet:
    return NotYet(
        last.reason or "the condition is not true yet",
        source=last.source,
        event_id=last.event_id,
        wanted_event_id=last.wanted_event_id,
        left_out=list(last.left_out),
        timeout_s=timeout_s,
    )
