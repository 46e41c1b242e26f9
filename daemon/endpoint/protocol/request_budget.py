"""Limits the memory of all requests that have no answer yet.

A limit for each request is not enough: eight clients that begin requests of 40 MB and never finish them,
which needs no login, would take half a gigabyte. All clients of an endpoint therefore share one budget. If it
is empty, the endpoint drops the incomplete request that began first, and closes its connection: honest
requests are complete within seconds. If every request is complete, the new one is refused.

The first bytes of a request do not count, so ordinary calls are served even if large requests use up the
budget.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from state.errors import LimitExceeded


FREE_BYTES: Final = 64 * 1024
"""Bytes of each client that do not count."""


class RequestBudget:
    """The budget of one endpoint; thread-safe."""

    def __init__(self, bytes_max: int, gave_up: Callable[[], None] = lambda: None) -> None:
        """Calls ``gave_up`` for each request that it drops."""
        self._bytes_max = bytes_max
        self._gave_up = gave_up
        self._used = 0
        self._lock = threading.Lock()
        self._incomplete: dict[RequestAccount, None] = {}
        """Accounts with incomplete requests that count, oldest first."""

    @property
    def used(self) -> int:
        """The bytes that currently count against the budget."""
        return self._used

    def open(self, abort: Callable[[], None]) -> RequestAccount:
        """Return the account of one client; ``abort`` closes the client's connection from another thread."""
        return RequestAccount(self, abort)

    def grow(self, account: RequestAccount, size: int) -> None:
        """Count ``size`` more bytes of a client; raise LimitExceeded."""
        victims = []
        try:
            with self._lock:
                if account.is_given_up:
                    raise self._too_large("the request was dropped in favour of a newer one")
                account.received += size
                extra = max(0, account.received - FREE_BYTES) - account.counted
                while self._used + extra > self._bytes_max:
                    victim = next((each for each in self._incomplete if each is not account), None)
                    if victim is None:
                        raise self._too_large("the requests of all clients together are too large")
                    self._drop(victim)
                    victim.is_given_up = True
                    victims.append(victim)
                if extra > 0:
                    self._used += extra
                    account.counted += extra
                    self._incomplete.setdefault(account)
        finally:
            for victim in victims:
                self._gave_up()
                victim.abort()

    def complete(self, account: RequestAccount) -> None:
        """Keep the client's request until it is answered: it can no longer be dropped."""
        with self._lock:
            self._incomplete.pop(account, None)

    def release(self, account: RequestAccount) -> None:
        """Free the bytes of a client."""
        with self._lock:
            self._drop(account)

    def _drop(self, account: RequestAccount) -> None:
        self._incomplete.pop(account, None)
        self._used -= account.counted
        account.counted = account.received = 0

    def _too_large(self, reason: str) -> LimitExceeded:
        return LimitExceeded(reason, limit="requests_bytes_max", limit_bytes=self._bytes_max)


class RequestAccount:
    """One client's part of the budget. Only the budget changes it."""

    def __init__(self, budget: RequestBudget, abort: Callable[[], None]) -> None:
        self._budget = budget
        self.abort = abort
        self.received = 0
        self.counted = 0
        self.is_given_up = False

    def grow(self, size: int) -> None:
        """Count ``size`` bytes received; raise LimitExceeded."""
        self._budget.grow(self, size)

    def complete(self) -> None:
        """Note that the request is complete: it can no longer be dropped."""
        self._budget.complete(self)

    def release(self) -> None:
        """Free the bytes: the request has its answer, or the connection has ended."""
        self._budget.release(self)
