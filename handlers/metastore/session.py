"""How calls are made: a list of addresses, reconnecting, repeating what may be repeated, and typed errors for the rest.

Rules (DESIGN.md of this package has the reasons):

* the connection is made when the first call needs it; addresses are tried in order, starting with the last good one;
* broken before the request had left: the next address, and again, for every call;
* broken afterwards: a call that only reads is repeated, one that changes is an AmbiguousCall;
* all attempts of one call share one deadline;
* an internal error of the server is a ServerFault and is not repeated here: the caller knows what it was about.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from tenacity import Retrying, retry_if_exception_type, wait_random_exponential
from thrift.Thrift import TException

from handlers.metastore.calls import DECLARED, AnyCall
from handlers.metastore.connection import Address, Broken, Connection
from handlers.metastore.error_mapping import is_fault, translated
from handlers.metastore.hive_version import V4_0, HiveVersion
from handlers.structs.exceptions import HiveException
from state.errors import AmbiguousCall, ConfigError, MetastoreUnavailable, Unsupported


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


R = TypeVar("R")

CATALOG: Final = "hive"
"""The default catalog: the only one that Tideline follows."""

REPLY_BYTES_MAX: Final = 512 * 1024 * 1024
_REPEATS: Final = 3
_PAUSE: Final = wait_random_exponential(multiplier=0.05, max=2)

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
"""What Hive 4's metastore wants to hear before it creates or shows an ACID table unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """How to call: seconds to connect and per call, the user to act as (None: the server's own), and our name."""

    connect_timeout_s: float = 10
    timeout_s: float = 60
    user: str | None = None
    identifier: str = "tideline"
    reply_bytes_max: int = REPLY_BYTES_MAX


class Session:
    """One connection at a time to one of several metastores that share a database. Not thread-safe: ``clone`` it."""

    def __init__(self, uris: Sequence[str], options: SessionOptions) -> None:
        if not uris:
            raise ConfigError("At least one metastore address is needed.")
        self.options = options
        self._uris = tuple(uris)
        self.addresses = [Address.parse(uri) for uri in uris]
        self._connection: Connection | None = None

    @property
    def hive_version(self) -> HiveVersion:
        """The generation of the server in use; connects where there is no connection yet."""
        if self._connection is not None:
            return self._connection.hive_version
        deadline = time.monotonic() + self.options.timeout_s
        return _repeated(lambda: self._connected(deadline).hive_version, deadline)

    def supports(self, call: str) -> bool:
        """Whether the server in use has ``call``; raise KeyError for a call that this client does not have either."""
        return DECLARED[call].exists_in(self.hive_version)

    def close(self) -> None:
        """Close the connection; a later call connects anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _processor(self) -> tuple[list[str], str] | tuple[None, None]:
        """Return what Hive 4 wants to know of its callers."""
        return (list(CAPABILITIES), self.options.identifier) if self.hive_version >= V4_0 else (None, None)

    def _refuse_before_4(self, call: str, *given: Any) -> None:
        """Raise Unsupported where an argument is given that only Hive 4 understands."""
        if self.hive_version < V4_0 and any(value is not None for value in given):
            raise Unsupported(
                "Write ids and expected values need Hive 4.", call=call, generation=str(self.hive_version)
            )

    def _invoke(self, call: AnyCall[R], *arguments: Any) -> R:
        """Make one call; raises the errors of ``state.errors`` as told above."""
        deadline = time.monotonic() + self.options.timeout_s
        try:
            return self._attempt(call, arguments, deadline)
        except MetastoreUnavailable:
            if time.monotonic() >= deadline:
                raise
            return _repeated(lambda: self._attempt(call, arguments, deadline), deadline)

    def _attempt(self, call: AnyCall[R], arguments: tuple[Any, ...], deadline: float) -> R:
        connection = self._connected(deadline)
        if not call.exists_in(connection.hive_version):
            raise self._unsupported(call.name, connection)
        try:
            return connection.perform(call, arguments, deadline)
        except Broken as broken:
            self._leave(connection)
            raise _broken_error(call, connection.address, broken) from broken
        except (HiveException, TException) as answer:
            if is_fault(answer):
                self.close()
            raise translated(answer, call.name, connection.address) from answer

    def _unsupported(self, call: str, connection: Connection) -> Unsupported:
        return Unsupported(
            f"A metastore of generation {connection.hive_version} has no {call}.",
            call=call,
            generation=str(connection.hive_version),
            address=str(connection.address),
        )

    def _connected(self, deadline: float) -> Connection:
        if self._connection is not None and self._connection.is_open():
            return self._connection
        self.close()
        reasons = {}
        for address in tuple(self.addresses):
            until = min(deadline, time.monotonic() + self.options.connect_timeout_s)
            try:
                self._connection = self._connect(address, until)
            except Broken as broken:
                reasons[str(address)] = str(broken)
                self._move_back(address)
            else:
                return self._connection
        raise MetastoreUnavailable("No metastore of the list could be reached.", addresses=reasons)

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


def _repeated(attempt: Callable[[], R], deadline: float) -> R:
    attempts = Retrying(
        stop=lambda state: state.attempt_number >= _REPEATS or time.monotonic() >= deadline,
        wait=_PAUSE,
        retry=retry_if_exception_type(MetastoreUnavailable),
        reraise=True,
    )
    return attempts(attempt)


def _broken_error(
    call: AnyCall[Any], address: Address, broken: Broken
) -> AmbiguousCall | MetastoreUnavailable:
    context = {"call": call.name, "address": str(address), "reason": str(broken)}
    if broken.sent and call.changes:
        return AmbiguousCall("The call was sent, but no answer came.", **context)
    if broken.sent:
        return MetastoreUnavailable("The connection broke before the answer was complete.", **context)
    return MetastoreUnavailable("The connection broke before the call was sent.", **context)
