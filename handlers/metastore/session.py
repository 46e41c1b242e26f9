"""Making calls: a list of addresses, reconnection,
repetition of calls that may be repeated, and typed errors.

Rules (DESIGN.md of this package gives the reasons):

* The connection is made at the first call. Addresses are tried in order, starting with the last one that
  worked.
* If the connection breaks before the request was sent completely, any call is sent to the next address.
* If it breaks later, a call that only reads is repeated; a call that changes something raises AmbiguousCall.
* All attempts of one call share one deadline.
* An internal error of the server raises ServerFault and is not repeated here, because only the caller knows
  its context.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from thrift.Thrift import TException

from handlers.failures import Backoff
from handlers.metastore.addresses import REPLY_BYTES_MAX, Address
from handlers.metastore.calls import DECLARED, V4_0, AnyCall, HiveVersion
from handlers.metastore.connection import BrokenConnectionError, Connection
from handlers.metastore.error_mapping import is_server_fault, to_tideline_error
from handlers.structs.exceptions import HiveException
from state.errors import AmbiguousCall, ConfigError, LoginFailed, MetastoreUnavailable, Unsupported


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


R = TypeVar("R")

CATALOG: Final = "hive"
"""The default catalog, the only one that Tideline follows."""

_ATTEMPTS_MAX: Final = 3
_BACKOFF: Final = Backoff(0.01, 2.0)

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


def allow() -> None:
    """Allow every call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Timeouts, the user to act as (None: the server's own), the client's name, and the limit on answers."""

    connect_timeout_s: float = 10
    timeout_s: float = 60
    user: str | None = None
    identifier: str = "tideline"
    reply_bytes_max: int = REPLY_BYTES_MAX


class Session:
    """One connection at a time to one of several metastores that share a database. Not thread-safe."""

    def __init__(
        self, uris: Sequence[str], options: SessionOptions, guard: Callable[[], None] = allow
    ) -> None:
        """``guard`` is called before a call that changes something is sent; its error prevents the call."""
        if not uris:
            raise ConfigError("at least one metastore address is required")
        self.options = options
        self._uris = tuple(uris)
        self.addresses = [Address.parse(uri) for uri in uris]
        self._connection: Connection | None = None
        self.guard: Final = guard

    @property
    def hive_version(self) -> HiveVersion:
        """The Hive version of the current server; connects if there is no connection yet."""
        if self._connection is not None:
            return self._connection.hive_version
        deadline = time.monotonic() + self.options.timeout_s
        return _repeat(lambda: self._connected(deadline).hive_version, deadline)

    def supports(self, call: str) -> bool:
        """Whether the current server has ``call``;
        raise KeyError for a call that this client does not declare.
        """
        return DECLARED[call].exists_in(self.hive_version)

    def close(self) -> None:
        """Close the connection; a later call connects again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _processor(self) -> tuple[list[str], str] | tuple[None, None]:
        """Return the capabilities and the name that Hive 4 requires in some requests."""
        return (list(CAPABILITIES), self.options.identifier) if self.hive_version >= V4_0 else (None, None)

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
        connection = self._connected(deadline)
        if not call.exists_in(connection.hive_version):
            raise self._unsupported(call.name, connection)
        if call.changes:
            self.guard()
        try:
            return connection.perform(call, arguments, deadline)
        except BrokenConnectionError as broken:
            self._leave(connection)
            raise _unanswered(call, connection.address, broken) from broken
        except (HiveException, TException) as answer:
            if is_server_fault(answer):
                self.close()
            raise to_tideline_error(answer, call.name, connection.address) from answer

    def _unsupported(self, call: str, connection: Connection) -> Unsupported:
        return Unsupported(
            f"Hive {connection.hive_version} has no {call}.",
            call=call,
            hive_version=str(connection.hive_version),
            address=str(connection.address),
        )

    def _connected(self, deadline: float) -> Connection:
        """Return the open connection, or a new one to the first address that answers."""
        if self._connection is not None and self._connection.is_open():
            return self._connection
        self.close()
        reasons, refusal = {}, None
        for address in tuple(self.addresses):
            until = min(deadline, time.monotonic() + self.options.connect_timeout_s)
            try:
                self._connection = self._connect(address, until)
            except BrokenConnectionError as broken:
                reasons[str(address)] = str(broken)
                self._move_back(address)
            except LoginFailed as failed:
                reasons[str(address)] = failed.message
                refusal = refusal or failed
                self._move_back(address)
            else:
                return self._connection
        if refusal is not None:
            raise refusal
        raise MetastoreUnavailable("none of the metastore's addresses can be reached", addresses=reasons)

    def _connect(self, address: Address, until: float) -> Connection:
        return Connection.connect(
            address, user=self.options.user, reply_bytes_max=self.options.reply_bytes_max, deadline=until
        )

    def _leave(self, connection: Connection) -> None:
        self.close()
        self._move_back(connection.address)

    def _move_back(self, address: Address) -> None:
        """Try ``address`` last from now on."""
        self.addresses.remove(address)
        self.addresses.append(address)


def _repeat(attempt: Callable[[], R], deadline: float) -> R:
    """Make the attempt again while no metastore can be reached,
    ``_ATTEMPTS_MAX`` times at most and until ``deadline``.
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
