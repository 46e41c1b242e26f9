"""Making calls: reconnection, repetition of repeatable calls, and typed errors.

Rules (DESIGN.md of this package gives the reasons):

* A call takes a connection of the pool (``connection_pool``). It tries addresses in order, starting with the
  last one that worked.
* If the connection breaks in the middle of the request, any call goes to the next address.
* If it breaks later, repeat a call that only reads; a call that changes something raises AmbiguousCall.
* All attempts of one call share one deadline.
* An internal error of the server raises ServerFault without a repetition, because only the caller knows its
  context.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any, Final, Self, TypeVar

from thrift.Thrift import TException

from handlers.failures import Backoff
from handlers.metastore.addresses import REPLY_BYTES_MAX, Address
from handlers.metastore.calls import DECLARED, V4_0, AnyCall, HiveVersion
from handlers.metastore.connection import BrokenConnectionError, Connection
from handlers.metastore.connection_pool import CONNECT_TIMEOUT_S, ConnectionPool
from handlers.metastore.error_mapping import is_server_fault, to_tideline_error
from handlers.structs.exceptions import HiveException
from state.errors import AmbiguousCall, LoginFailed, MetastoreUnavailable, Unsupported


R = TypeVar("R")

CATALOG: Final = "hive"
"""The default catalog, the only one that Tideline follows."""

_ATTEMPTS_MAX: Final = 3
_BACKOFF: Final = Backoff(0.01, 2.0)
GUARDED_S: Final = 0.5
"""A call that changes something goes out at most so long after its guard allowed it, and otherwise needs its
guard again: it may have waited for a connection.
"""

CAPABILITIES: Final = (
    "EXTWRITE",
    "EXTREAD",
    "HIVEBUCKET2",
    "HIVEFULLACIDREAD",
    "HIVEFULLACIDWRITE",
    "HIVECACHEINVALIDATE",
    "HIVEMANAGESTATS",
    "HIVEMANAGEDINSERTWRITE",
    "HIVEMANAGEDINSERTREAD",
    "HIVESQL",
    "HIVEMQT",
    "HIVEONLYMQTWRITE",
    "ACCEPTS_UNMODIFIED_METADATA",
)
"""The capabilities that Hive 4 requires of a client before it creates an ACID table or returns one
unchanged."""

CLIENT_NAME: Final = "tideline"


def allow() -> None:
    """Allow every call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Timeouts, and the limit on answers."""

    connect_timeout_s: float = CONNECT_TIMEOUT_S
    timeout_s: float = 60
    reply_bytes_max: int = REPLY_BYTES_MAX


class Session:
    """Calls of one metastore service, each on a connection of the pool."""

    def __init__(
        self,
        service: Sequence[str] | ConnectionPool,
        options: SessionOptions,
        guard: Callable[[], None] = allow,
    ) -> None:
        """``service`` is the metastore's addresses, for one connection of the session's own, or a pool, whose
        options for connections then apply.

        Calls ``guard`` before it sends a call that changes something; its error prevents the call.
        """
        self.options = options
        self._service = service if isinstance(service, ConnectionPool) else tuple(service)
        self._pool = (
            service
            if isinstance(service, ConnectionPool)
            else ConnectionPool(
                service,
                connect_timeout_s=options.connect_timeout_s,
                reply_bytes_max=options.reply_bytes_max,
                connections_max=1,
                idle_s=inf,
            )
        )
        self.guard: Final = guard

    @property
    def addresses(self) -> Sequence[Address]:
        """The addresses, in the order of use."""
        return self._pool.addresses

    @property
    def hive_version(self) -> HiveVersion:
        """The Hive version of the current server; connects if there is no connection yet."""
        known = self._pool.hive_version
        if known is not None:
            return known
        deadline = time.monotonic() + self.options.timeout_s
        return _repeat(lambda: self._ask_hive_version(deadline), deadline)

    def _ask_hive_version(self, deadline: float) -> HiveVersion:
        with self._lent(deadline) as connection:
            return connection.hive_version

    def supports(self, call: str) -> bool:
        """Whether the current server has ``call``;
        raise KeyError for a call that this client does not declare.
        """
        return DECLARED[call].exists_in(self.hive_version)

    def close(self) -> None:
        """Close the session's own connection; a later call connects again. A shared pool stays open."""
        if self._service is not self._pool:
            self._pool.close_idle()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _processor(self) -> tuple[list[str], str] | tuple[None, None]:
        """Return the capabilities and the name that Hive 4 requires in some requests."""
        return (list(CAPABILITIES), CLIENT_NAME) if self.hive_version >= V4_0 else (None, None)

    def _require_hive_4_for(self, call: str, *arguments: Any) -> None:
        """Raise Unsupported before Hive 4 if one of ``arguments`` is set,
        because only Hive 4 understands them.
        """
        if self.hive_version < V4_0 and any(value is not None for value in arguments):
            raise Unsupported(
                "write ids and expected values require Hive 4", call=call, hive_version=str(self.hive_version)
            )

    def _invoke(self, call: AnyCall[R], *arguments: Any) -> R:
        """Make one call, repeated if that is safe; raises the errors of ``state.errors``."""
        deadline = time.monotonic() + self.options.timeout_s
        try:
            return self._attempt(call, arguments, deadline)
        except LoginFailed:
            raise
        except MetastoreUnavailable:
            if time.monotonic() >= deadline:
                raise
            return _repeat(lambda: self._attempt(call, arguments, deadline), deadline)

    def _attempt(self, call: AnyCall[R], arguments: tuple[Any, ...], deadline: float) -> R:
        with self._lent(deadline, self.guard if call.changes else allow) as connection:
            if not call.exists_in(connection.hive_version):
                raise self._unsupported(call.name, connection)
            try:
                return connection.perform(call, arguments, deadline)
            except BrokenConnectionError as broken:
                self._pool.report_broken(connection)
                raise _unanswered(call, connection.address, broken) from broken
            except (HiveException, TException) as answer:
                if is_server_fault(answer):
                    connection.close()
                raise to_tideline_error(answer, call.name, connection.address) from answer

    @contextmanager
    def _lent(self, deadline: float, guard: Callable[[], None] = allow) -> Iterator[Connection]:
        """Take a connection for the block, at most ``GUARDED_S`` after ``guard`` was called.

        Guards make calls themselves, so the caller holds no connection while ``guard`` runs. Otherwise
        callers that together hold all connections of the pool could wait for each other.
        """
        connection = self._pool.take(deadline)
        while guard is not allow:
            self._pool.give(connection)
            guard()
            guarded_s = time.monotonic()
            connection = self._pool.take(deadline, first=True)
            if time.monotonic() - guarded_s < GUARDED_S:
                break
        try:
            yield connection
        finally:
            self._pool.give(connection)

    def _unsupported(self, call: str, connection: Connection) -> Unsupported:
        return Unsupported(
            f"Hive {connection.hive_version} has no {call}",
            call=call,
            hive_version=str(connection.hive_version),
            address=str(connection.address),
        )


def _repeat(attempt: Callable[[], R], deadline: float) -> R:
    """Repeat the attempt while no metastore is reachable, ``_ATTEMPTS_MAX`` times at most and until
    ``deadline``.
    """
    for failures in count(1):
        try:
            return attempt()
        except LoginFailed:  # repeated by the caller's loop only: servers lock accounts after failed logins
            raise
        except MetastoreUnavailable:
            if failures >= _ATTEMPTS_MAX or time.monotonic() >= deadline:
                raise
        time.sleep(_BACKOFF.pause_s(failures))
    raise AssertionError("the loop above ends by return or raise")


def _unanswered(
    call: AnyCall[Any], address: Address, broken: BrokenConnectionError
) -> AmbiguousCall | MetastoreUnavailable:
    """Return the error for a call whose connection broke."""
    context = {"call": call.name, "address": str(address), "reason": str(broken)}
    if broken.sent and call.changes:
        return AmbiguousCall("the call was sent, but not answered", **context)
    if broken.sent:
        return MetastoreUnavailable("the connection broke before the answer was complete", **context)
    return MetastoreUnavailable("the connection broke before the call was sent", **context)
