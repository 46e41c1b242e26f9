"""Declarations of metastore calls: name, arguments, answer, Hive versions, and whether it changes anything.

``changes`` decides on a broken connection: it repeats a reading call, and reports a changing call as
ambiguous. There are three kinds of calls. A ``PlainCall`` uses the generated method of ``hmsclient``. A
``Call`` uses the structs of ``handlers.structs``. A ``ListCall`` also does, and passes the elements of a list
on one by one, because the whole list may not fit into memory. DESIGN.md lists which calls are of which kind,
and why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Protocol, TypeVar

from thrift.Thrift import TApplicationException, TMessageType, TType

from handlers.structs.struct import Struct, declare, resolve
from state.errors import Unsupported


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.structs.exceptions import HiveException


@dataclass(frozen=True, slots=True, order=True)
class HiveVersion:
    """A Hive version as ``major.minor``; ordered. Servers of one list may differ during an upgrade."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


V2_3: Final = HiveVersion(2, 3)
V3_1: Final = HiveVersion(3, 1)
V4_0: Final = HiveVersion(4, 0)
V4_1: Final = HiveVersion(4, 1)
V4_2: Final = HiveVersion(4, 2)

AMBIGUOUS_VERSION: Final = "3.0"
"""The answer of both 2.3 and 3.1. Only 3.1 has ``get_catalogs``."""


def parse_hive_version(answer: str) -> HiveVersion:
    """Parse the answer to ``getVersion``; raise Unsupported if it is not a version or is older than 2.3.

    ``AMBIGUOUS_VERSION`` counts as 2.3; the caller must distinguish 2.3 from 3.1.
    """
    if answer == AMBIGUOUS_VERSION:
        return V2_3
    match = re.match(r"(\d+)\.(\d+)\.", answer + ".")
    version = HiveVersion(int(match[1]), int(match[2])) if match else None
    if version is None or version < V2_3:
        raise Unsupported("the server is not a Hive metastore of version 2.3 or later", answer=answer[:200])
    return version


R_co = TypeVar("R_co", covariant=True)


class AnyCall(Protocol[R_co]):
    """A call that a connection can perform."""

    @property
    def name(self) -> str:
        """Hive's name of the call."""

    @property
    def changes(self) -> bool:
        """Whether the call changes anything, so that a blind repetition is wrong."""

    @property
    def streams(self) -> bool:
        """Whether processing the answer begins while it arrives, so that its size does not decide how much
        memory it needs.
        """

    def exists_in(self, version: HiveVersion) -> bool:
        """Whether servers of ``version`` have the call."""

    def perform(self, client: Any, arguments: tuple[Any, ...]) -> R_co:
        """Send the call over ``hmsclient``'s client and return the answer; raises Thrift's errors."""


@dataclass(frozen=True, slots=True)
class _VersionedCall:
    """The fields of both kinds of calls. ``until`` is inclusive."""

    name: str
    changes: bool = field(kw_only=True)
    since: HiveVersion = field(default=V2_3, kw_only=True)
    until: HiveVersion | None = field(default=None, kw_only=True)

    @property
    def streams(self) -> bool:
        """Whether processing the answer begins while it arrives."""
        return False

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
    """A call with Tideline's own structs. ``takes`` maps argument names to types; arguments and exceptions
    have numbers from 1.

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
        # SLF001: generated clients offer no other way to their protocol
        self._send(client._oprot, arguments)  # noqa: SLF001
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
        _raise_fault(protocol)
        answer = self.answer_struct()
        answer.read(protocol)
        protocol.readMessageEnd()
        return answer


class Receiver(Protocol):
    """Takes the elements of a list while they arrive."""

    def restart(self) -> None:
        """Forget all elements: the call begins (again)."""

    def receive(self, element: Any) -> None:
        """Take the next element. Raises only errors of ``state.errors``."""


@dataclass(frozen=True, slots=True)
class ListCall(Call[None]):
    """A call that returns a list, and passes its elements to a ``Receiver``,
    the last argument, instead of returning them.
    """

    element: type[Struct] = field(kw_only=True)

    @property
    def streams(self) -> bool:
        """Whether processing the answer begins while it arrives."""
        return True

    def perform(self, client: Any, arguments: tuple[Any, ...]) -> None:
        """Send the call and pass on the elements of the answer; an attempt starts with ``restart``."""
        *values, receiver = arguments
        receiver.restart()
        self._send(client._oprot, tuple(values))  # noqa: SLF001 - as in ``Call``
        protocol = client._iprot  # noqa: SLF001 - as in ``Call``
        _raise_fault(protocol)
        if not self._receive_fields(protocol, receiver):
            raise TApplicationException(TApplicationException.MISSING_RESULT, f"{self.name} returned nothing")

    def _receive_fields(self, protocol: Any, receiver: Receiver) -> bool:
        """Read the answer's fields; return whether there was a list.
        Raises the declared exception that it contains.
        """
        received, exception = False, None
        protocol.readStructBegin()
        while True:
            _, ttype, number = protocol.readFieldBegin()
            if ttype == TType.STOP:
                break
            if number == 0 and ttype == TType.LIST:
                received = True
                self._receive_elements(protocol, receiver)
            elif 1 <= number <= len(self.raises) and ttype == TType.STRUCT:
                exception = self.raises[number - 1]()
                exception.read(protocol)
            else:
                protocol.skip(ttype)
            protocol.readFieldEnd()
        protocol.readStructEnd()
        protocol.readMessageEnd()
        if exception is not None:
            raise exception
        return received

    def _receive_elements(self, protocol: Any, receiver: Receiver) -> None:
        _, size = protocol.readListBegin()
        for _ in range(size):
            element = self.element()
            element.read(protocol)
            receiver.receive(element)
        protocol.readListEnd()


def _raise_fault(protocol: Any) -> None:
    """Read the header of an answer; raise the fault that it announces, if it does."""
    _, kind, _ = protocol.readMessageBegin()
    if kind == TMessageType.EXCEPTION:
        fault = TApplicationException()
        fault.read(protocol)
        protocol.readMessageEnd()
        raise fault


DECLARED: Final[dict[str, AnyCall[object]]] = {}
"""Every call that the client knows, by name; the first declaration if several calls share a name."""
