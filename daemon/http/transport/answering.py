"""Makes answers: a few threads, a short queue, and a budget for answers that clients have not read.

A request beyond the queue, or an answer beyond the budget, is refused with 503 and ``Retry-After``: a client
that repeats its request later gets an answer, while one that waits takes memory. The thread of the event loop
makes no answers, so that a long one delays no other connection.

The threads are daemon threads: an answer that hangs does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from enum import Enum
from traceback import clear_frames
from typing import Any, Final, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daemon.http.transport.fair_queue import FairQueue
from daemon.http.transport.limits import CHUNK_BYTES, Limits
from daemon.http.transport.shared_answers import SharedAnswers
from state.errors import Overloaded


T = TypeVar("T")
RETRY_AFTER_S: Final = 2
_Task = tuple["Callable[[], Any]", "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class Lane(Enum):
    """Kinds of answers. Each has its own threads, so that none waits for those of another kind."""

    STATUS = "status"
    """The daemon's status and its metrics, one by one."""
    MEMORY = "memory"
    """Answers computed from memory."""
    STORE = "store"
    """Answers that read a store or a database, and so may wait for another system."""
    ACTION = "action"
    """Actions, which wait for the loops that they concern."""


class Answering:
    """The threads and the budget of one server. All but the threads belong to the event loop."""

    def __init__(self, limits: Limits, refused: Callable[[str], None], name: str = "answers") -> None:
        self._answers_bytes = limits.answers_bytes
        self._refused = refused
        workers = {
            Lane.STATUS: 1,
            Lane.MEMORY: limits.memory_workers,
            Lane.STORE: limits.store_workers,
            Lane.ACTION: limits.action_workers,
        }
        self._lanes = {
            lane: _Workers(number, limits.waiting, f"{name}-{lane.value}") for lane, number in workers.items()
        }
        self._held_bytes = {True: 0, False: 0}
        self.shared = SharedAnswers()

    def close(self) -> None:
        """End the threads, each after its present answer; waits for none."""
        for workers in self._lanes.values():
            workers.close()

    async def run(self, work: Callable[[], T], lane: Lane, client: str) -> T:
        """Return the result of ``work``, from a thread of its lane; raise its error, or Overloaded.

        ``client`` is the address that shares the queue with others. If the queue is full, a request of the
        client with the most gives way.
        """
        workers = self._lanes[lane]
        if workers.is_full():
            self._refused("busy")
            busy = Overloaded("too many requests at once", limit=workers.pending, hint=_HINT)
            if not workers.displace(client, busy):
                raise busy
        return await workers.run(work, client)

    def hold(self, size_bytes: int, lane: Lane) -> Callable[[], None]:
        """Take the size of an answer from the budget, and return the function that gives it back; raise
        Overloaded.

        An eighth of the budget is for the status. Small answers do not count: connections limit them. An
        answer larger than the budget passes if it is the only one.
        """
        if size_bytes <= CHUNK_BYTES:
            return _release_nothing
        is_status = lane is Lane.STATUS
        limit = self._answers_bytes // 8 if is_status else self._answers_bytes * 7 // 8
        held = self._held_bytes[is_status]
        if held and held + size_bytes > limit:
            self._refused("memory")
            raise Overloaded("too many answers wait for clients to read them", limit_bytes=limit, hint=_HINT)
        self._held_bytes[is_status] += size_bytes

        def release() -> None:
            self._held_bytes[is_status] -= size_bytes

        return release


def _release_nothing() -> None:
    pass


class _Workers:
    """The threads of one lane and their queue; a thread starts with the first request that needs it."""

    def __init__(self, workers: int, waiting: int, name: str) -> None:
        self._workers = workers
        self._pending_max = workers + waiting
        self._name = name
        self._tasks: FairQueue[_Task] = FairQueue()
        self._started = 0
        self.pending = 0

    def close(self) -> None:
        self._tasks.close()

    def is_full(self) -> bool:
        return self.pending >= self._pending_max

    def displace(self, newcomer: str, reason: Overloaded) -> bool:
        """Refuse a waiting request in favour of a client that has fewer; return False if there is none."""
        task = self._tasks.displace(newcomer)
        if task is None:
            return False
        _, answered, _ = task
        answered.set_exception(reason)
        return True

    async def run(self, work: Callable[[], T], client: str) -> T:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[T] = loop.create_future()
        self.pending += 1
        answered.add_done_callback(self._finish)
        if self._started < min(self.pending, self._workers):
            self._started += 1
            name = f"{self._name}-{self._started}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        self._tasks.put(client, (work, answered, loop))
        return await asyncio.shield(answered)

    def _finish(self, answered: asyncio.Future[Any]) -> None:
        self.pending -= 1
        if not answered.cancelled():
            answered.exception()  # its waiter may have left

    def _work(self) -> None:
        while (task := self._tasks.take()) is not None:
            work, answered, loop = task
            try:
                deliver, value = answered.set_result, work()
            except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
                # Futures and the frames of their waiters refer to each other through the error. They would
                # keep the source of the answer in memory until the garbage collector finds them.
                clear_frames(error.__traceback__)
                deliver, value = answered.set_exception, error
            try:
                loop.call_soon_threadsafe(deliver, value)
            except RuntimeError:  # the loop has ended, and no one waits any more
                return
            del task, work, answered, deliver, value


_HINT: Final = f"Repeat the request after {RETRY_AFTER_S} seconds."


class HeldResponse(Response):
    """A response that takes its size from the budget until the client has read nearly all of it."""

    def __init__(
        self, content: bytes, status_code: int, headers: Mapping[str, str], release: Callable[[], None]
    ) -> None:
        super().__init__(content, status_code, headers)
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response in pieces. ``send`` waits while the client leaves the previous one unread."""
        del scope, receive
        body = memoryview(self.body)
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            for start in range(0, max(1, len(body)), CHUNK_BYTES):
                end = start + CHUNK_BYTES
                await send(
                    {
                        "type": "http.response.body",
                        "body": bytes(body[start:end]),
                        "more_body": end < len(body),
                    }
                )
        finally:
            self._release()
