"""All connections of one HTTP server: decides which clients get one, which lose one, and which have waited
too long.

Silent clients do not cause the refusal of a newcomer: in its favour, the server closes the connection that
has waited longest for its client to send a request or to read an answer. It chooses among those of the
address with the most connections, because that address causes the shortage: in a storm of newcomers, the
connection of a probe would otherwise close before the server reads its request. The server refuses a newcomer
only if every connection has a request in progress. So silent and slow clients do not affect others.

Every class here belongs to the thread of the event loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain
from typing import Protocol

from daemon.http.transport.limits import Limits, group_of


class Exchange(Protocol):
    """Activity of an established connection (``daemon.http.transport.protocol``)."""

    def waits_since(self) -> float | None:
        """Return since when it waits for its client; None while the server is at work."""

    def overdue(self, now_s: float, limits: Limits) -> str | None:
        """Return which limit of time it exceeds."""


class Connection:
    """One accepted socket, from its acceptance to its end."""

    def __init__(self, address: str, now_s: float, abort: Callable[[], None]) -> None:
        self.group = group_of(address)
        self.accepted_s = now_s
        self.abort = abort
        """Closes the connection at once, and drops unsent data."""
        self.exchange: Exchange | None = None
        """None during the TLS handshake."""
        self.set_aside: Callable[[], AbstractContextManager[None]] = _not_admitted
        """Takes the connection out of the limits while its request waits; another limit then holds."""
        self.left: Callable[[], object] = _ignore
        """Called when the client leaves before its answer."""

    def waits_since(self) -> float | None:
        """Return since when it waits for its client; None during a request."""
        return self.accepted_s if self.exchange is None else self.exchange.waits_since()

    def overdue(self, now_s: float, limits: Limits) -> str | None:
        """Return which limit of time it exceeds."""
        if self.exchange is not None:
            return self.exchange.overdue(now_s, limits)
        return "head" if now_s - self.accepted_s > limits.head_s else None


class Connections:
    """The connections of one server."""

    def __init__(
        self, limits: Limits, refused: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``refused`` counts a connection closed or refused, by reason."""
        self.limits = limits
        self.clock = clock
        self._refused = refused
        self._open: set[Connection] = set()
        self._by_group: dict[str, set[Connection]] = {}
        """The open ones by address."""
        self._aside: set[Connection] = set()

    def __len__(self) -> int:
        return len(self._open) + len(self._aside)

    def admit(self, address: str, abort: Callable[[], None]) -> Connection | None:
        """Return the connection of a new client; None if it is refused."""
        newcomer = Connection(address, self.clock(), abort)
        own = self._by_group.get(newcomer.group, ())
        if len(own) >= self.limits.connections_per_address and not self._close_one([own], "address"):
            return None
        if len(self._open) >= self.limits.connections and not self._close_one(
            self._by_group.values(), "connections"
        ):
            return None
        newcomer.set_aside = partial(self._set_aside, newcomer)
        self._add(newcomer)
        return newcomer

    def end(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self._remove(connection)
        self._aside.discard(connection)
        connection.left()

    def sweep(self) -> None:
        """Close the connections that exceed a limit of time."""
        now_s = self.clock()
        for connection in list(self._open):
            reason = connection.overdue(now_s, self.limits)
            if reason is not None:
                self._close(connection, reason)

    def close(self) -> None:
        """Close all connections."""
        for connection in [*self._open, *self._aside]:
            connection.abort()

    @contextmanager
    def _set_aside(self, connection: Connection) -> Iterator[None]:
        self._remove(connection)
        self._aside.add(connection)
        try:
            yield
        finally:
            if connection in self._aside:  # it is still open
                self._aside.discard(connection)
                self._add(connection)

    def _add(self, connection: Connection) -> None:
        self._open.add(connection)
        self._by_group.setdefault(connection.group, set()).add(connection)

    def _remove(self, connection: Connection) -> None:
        if connection not in self._open:
            return
        self._open.discard(connection)
        group = self._by_group[connection.group]
        group.discard(connection)
        if not group:
            del self._by_group[connection.group]

    def _close_one(self, groups: Collection[Collection[Connection]], reason: str) -> bool:
        """Close the connection that has waited longest, of a group with the most connections;
        return False if none waits.
        """
        for size in sorted({len(group) for group in groups}, reverse=True):
            largest = (group for group in groups if len(group) == size)
            longest = min(_waiting(largest), key=lambda pair: pair[0], default=None)
            if longest is not None:
                self._close(longest[1], reason)
                return True
        self._refused(reason)
        return False

    def _close(self, connection: Connection, reason: str) -> None:
        self._refused(reason)
        self._remove(connection)
        connection.abort()


def _ignore() -> None:
    pass


def _not_admitted() -> AbstractContextManager[None]:
    raise AssertionError("the connection was not admitted")


def _waiting(groups: Iterable[Collection[Connection]]) -> Iterator[tuple[float, Connection]]:
    for connection in chain.from_iterable(groups):
        since_s = connection.waits_since()
        if since_s is not None:
            yield since_s, connection
