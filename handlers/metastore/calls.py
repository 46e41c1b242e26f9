"""Declarations of metastore calls: name, arguments, answer, the Hive versions that have it, and whether it changes anything.

``changes`` decides what a broken connection means: a call that only reads is repeated, a call that changes something is
reported as ambiguous. There are two kinds of calls. A ``Call`` uses the structs of ``handlers.structs``, because its form in
Hive 2 lacks fields or does not exist. A ``PlainCall`` uses the generated method of ``hmsclient``, which is correct in every
Hive version for calls that take names and flags and return strings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Protocol, TypeVar

from thrift.Thrift import TApplicationException, TMessageType

from handlers.metastore.hive_version import V2_3, HiveVersion
from handlers.structs.struct import Struct, declare, resolve


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.structs.exceptions import HiveException


R_co = TypeVar("R_co", covariant=True)


class AnyCall(Protocol[R_co]):
    """A call that a connection can perform."""

    @property
    def name(self) -> str:
        """Hive's name of the call."""

    @property
    def changes(self) -> bool:
        """Whether the call changes anything, so that it must not be repeated blindly."""

    def exists_in(self, version: HiveVersion) -> bool:
        """Whether servers of ``version`` have the call."""

    def perform(self, client: Any, arguments: tuple[Any, ...]) -> R_co:
        """Send the call over ``hmsclient``'s client and return the answer; raises what Thrift raises."""


@dataclass(frozen=True, slots=True)
class _VersionedCall:
    """The fields of both kinds of calls. ``until`` is inclusive."""

    name: str
    changes: bool = field(kw_only=True)
    since: HiveVersion = field(default=V2_3, kw_only=True)
    until: HiveVersion | None = field(default=None, kw_only=True)

    def exists_in(self, version: HiveVersion) -> bool:
        """Whether servers of ``version`` have the call."""
        return self.since <= version and (self.until is None or version <= self.until)


@dataclass(frozen=True, slots=True)
class PlainCall(_VersionedCall, Generic[R_co]):
    """A call that ``hmsclient`` performs."""

    returns: type[R_co]

    def __post_init__(self) -> None:
        DECLARED.setdefault(self.name, self)

    def perform(self, client: Any, arguments: tuple[Any, ...]) -> R_co:
        """Send the call and return the answer."""
        answer: R_co = getattr(client, self.name)(*arguments)
        return answer


@dataclass(frozen=True, slots=True)
class Call(_VersionedCall, Generic[R_co]):
    """A call with Tideline's own structs. ``takes`` maps argument names to types; arguments and exceptions are numbered from 1.

    ``returns`` is ``NoneType`` for a call without a result.
    """

    takes: Mapping[str, Any]
    returns: type[R_co]
    raises: tuple[type[HiveException], ...]
    arguments_struct: type[Struct] = field(init=False)
    answer_struct: type[Struct] = field(init=False)

    def __post_init__(self) -> None:
        arguments = {
            name: Annotated[kind | None, number] for number, (name, kind) in enumerate(self.takes.items(), 1)
        }
        answer: dict[str, Any] = {
            f"o{number}": Annotated[kind | None, number] for number, kind in enumerate(self.raises, 1)
        }
        if self.returns is not NoneType:
            answer["success"] = Annotated[self.returns | None, 0]
        object.__setattr__(self, "arguments_struct", declare(__name__, f"{self.name}_args", arguments))
        object.__setattr__(self, "answer_struct", declare(__name__, f"{self.name}_result", answer))
        resolve()
        DECLARED.setdefault(self.name, self)

    def perform(self, client: Any, arguments: tuple[Any, ...]) -> R_co:
        """Send the call and return the answer."""
        self._send(client._oprot, arguments)  # noqa: SLF001 - generated clients offer no other way to their protocol
        answer = self._receive(client._iprot)  # noqa: SLF001 - likewise
        for number in range(1, len(self.raises) + 1):
            exception = getattr(answer, f"o{number}")
            if exception is not None:
                raise exception
        result: Any = getattr(answer, "success", None)
        if result is None and self.returns is not NoneType:
            raise TApplicationException(TApplicationException.MISSING_RESULT, f"{self.name} returned nothing")
        returned: R_co = result
        return returned

    def _send(self, protocol: Any, arguments: tuple[Any, ...]) -> None:
        protocol.writeMessageBegin(self.name, TMessageType.CALL, 0)
        self.arguments_struct(**dict(zip(self.takes, arguments, strict=True))).write(protocol)
        protocol.writeMessageEnd()
        protocol.trans.flush()

    def _receive(self, protocol: Any) -> Struct:
        _, kind, _ = protocol.readMessageBegin()
        if kind == TMessageType.EXCEPTION:
            fault = TApplicationException()
            fault.read(protocol)
            protocol.readMessageEnd()
            raise fault
        answer = self.answer_struct()
        answer.read(protocol)
        protocol.readMessageEnd()
        return answer


DECLARED: Final[dict[str, AnyCall[object]]] = {}
"""Every call that the client knows, by name; the first declaration if several calls share a name."""
