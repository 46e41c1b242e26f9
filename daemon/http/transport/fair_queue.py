"""A queue of requests that clients share: each client's turn comes in order, however many requests it has.

A client that sends many requests therefore delays only its own. If the queue is full, it gives up one of them
for a client that has fewer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import Generic, TypeVar


T = TypeVar("T")


class FairQueue(Generic[T]):
    """Tasks by client. Several threads take them."""

    def __init__(self) -> None:
        self._by_client: OrderedDict[str, deque[T]] = OrderedDict()
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, client: str, task: T) -> None:
        """Add a task behind the others of its client."""
        with self._changed:
            self._by_client.setdefault(client, deque()).append(task)
            self._changed.notify()

    def take(self) -> T | None:
        """Wait for a task of the client whose turn it is; return None at the end of the queue."""
        with self._changed:
            self._changed.wait_for(lambda: self._by_client or self._is_closed)
            if not self._by_client:
                return None
            client, tasks = self._by_client.popitem(last=False)
            task = tasks.popleft()
            if tasks:
                self._by_client[client] = tasks  # at the end: it is the others' turn
            return task

    def displace(self, newcomer: str) -> T | None:
        """Remove and return the newest task of the client with the most tasks. None unless that client then
        still has at least as many as the new client.
        """
        with self._changed:
            if not self._by_client:
                return None
            largest = max(self._by_client, key=lambda client: len(self._by_client[client]))
            tasks = self._by_client[largest]
            if len(tasks) < len(self._by_client.get(newcomer, ())) + 2:
                return None
            return tasks.pop()

    def close(self) -> None:
        """Let ``take`` return None when no task remains."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
