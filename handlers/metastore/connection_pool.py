"""The connections to one metastore service: a limited number, each lent to one call at a time.

Policies share them, because a policy without work needs none, and one with work needs one for as long as a
call takes. The connection used last comes first. The pool closes connections that were idle for ``idle_s`` at
the next opportunity, so that their number follows the work.

A caller that finds all of them in use waits, in the order of arrival, at most until the deadline of its call.
It then gets MetastoreUnavailable, as from a server that does not answer. A service that hangs holds only its
own pool.

The order of the addresses belongs to the pool as well: one caller's discovery of a dead server spares the
others the attempt.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from handlers.metastore.addresses import CONNECTIONS_MAX, REPLY_BYTES_MAX, Address
from handlers.metastore.calls import HiveVersion
from handlers.metastore.connection import BrokenConnectionError, Connection
from state.errors import ConfigError, LoginFailed, MetastoreUnavailable


CONNECT_TIMEOUT_S: Final = 10.0
IDLE_S: Final = 30.0


class ConnectionPool:
    """Connections to the servers of one metastore service; thread-safe. Connects at the first call."""

    def __init__(
        self,
        uris: Sequence[str],
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        reply_bytes_max: int = REPLY_BYTES_MAX,
        connections_max: int = CONNECTIONS_MAX,
        idle_s: float = IDLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert connections_max >= 1, connections_max
        if not uris:
            raise ConfigError("at least one metastore address is required")
        self._addresses = [Address.parse(uri) for uri in uris]
        self._connect_timeout_s = connect_timeout_s
        self._reply_bytes_max = reply_bytes_max
        self._connections_max = connections_max
        self._idle_s = idle_s
        self._clock = clock
        self._lock = threading.Lock()
        self._lent = 0
        """Connections in use, in opening, or promised to one of those that waited."""
        self._idle: deque[tuple[float, Connection]] = deque()
        """Open connections and since when they are idle, the one used last at the right."""
        self._waiting: deque[threading.Event] = deque()
        self.hive_version: HiveVersion | None = None
        """The Hive version of the server connected to last; None if that server may have been replaced."""

    @property
    def addresses(self) -> Sequence[Address]:
        """The addresses, in the order of use."""
        with self._lock:
            return tuple(self._addresses)

    def take(self, deadline: float, *, first: bool = False) -> Connection:
        """Return an open connection, which the caller must give back; with ``first``, this caller goes before
        all others that wait.

        Raises MetastoreUnavailable if no server can be reached, or no connection becomes free, before
        ``deadline``.
        """
        self._wait_for_turn(deadline, first=first)
        try:
            return self._take_open() or self._connect(deadline)
        except BaseException:
            self._end_turn()
            raise

    def give(self, connection: Connection) -> None:
        """Return a connection after a call; one that was closed is forgotten."""
        now_s = self._clock()
        with self._lock:
            if not connection.is_closed:
                self._idle.append((now_s, connection))
            old = self._remove_old(now_s)
        self._end_turn()
        for each in old:
            each.close()

    def report_broken(self, connection: Connection) -> None:
        """Close a connection that broke, and try its server last from now on; the caller must still give it
        back.
        """
        connection.close()
        with self._lock:
            self._move_back(connection.address)
            self.hive_version = None

    def count(self) -> tuple[int, int]:
        """Return how many connections are in use, and how many are idle."""
        with self._lock:
            return self._lent, len(self._idle)

    def close_idle(self) -> None:
        """Close the connections that are not in use; a later call connects again."""
        with self._lock:
            idle = [connection for _, connection in self._idle]
            self._idle.clear()
            self.hive_version = None
        for each in idle:
            each.close()

    def _wait_for_turn(self, deadline: float, *, first: bool) -> None:
        with self._lock:
            if self._lent < self._connections_max:
                self._lent += 1
                return
            turn = threading.Event()
            if first:
                self._waiting.appendleft(turn)
            else:
                self._waiting.append(turn)
        if turn.wait(max(0.0, deadline - time.monotonic())):
            return
        with self._lock:
            if turn.is_set():  # after the time-out
                return
            self._waiting.remove(turn)
        raise MetastoreUnavailable(
            "all connections to the metastore remained in use",
            addresses=[str(address) for address in self.addresses],
            limit=self._connections_max,
            hint="If the metastore answers in time, raise connections_max of the source or target.",
        )

    def _end_turn(self) -> None:
        """Pass the turn on to the next caller that waits."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._lent -= 1

    def _take_open(self) -> Connection | None:
        """Return an idle connection that its server still holds."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                _, connection = self._idle.pop()
            if connection.is_open():
                return connection
            connection.close()

    def _remove_old(self, now_s: float) -> list[Connection]:
        """Return the connections that have been idle for too long, to close them; the caller holds the
        lock.
        """
        old = []
        while self._idle and now_s - self._idle[0][0] > self._idle_s:
            old.append(self._idle.popleft()[1])
        return old

    def _connect(self, deadline: float) -> Connection:
        """Return a new connection to the first server that answers."""
        reasons, refusal = {}, None
        for address in self.addresses:
            until = min(deadline, time.monotonic() + self._connect_timeout_s)
            try:
                connection = Connection.connect(
                    address, reply_bytes_max=self._reply_bytes_max, deadline=until
                )
            except BrokenConnectionError as broken:
                reasons[str(address)] = str(broken)
            except LoginFailed as failed:
                reasons[str(address)] = failed.message
                refusal = refusal or failed
            else:
                with self._lock:
                    self.hive_version = connection.hive_version
                return connection
            with self._lock:
                self._move_back(address)
        if refusal is not None:
            raise refusal
        raise MetastoreUnavailable("none of the metastore's addresses can be reached", addresses=reasons)

    def _move_back(self, address: Address) -> None:
        self._addresses.remove(address)
        self._addresses.append(address)
