"""What a metastore call is: its name, what it takes and returns, since when it exists, and whether it changes anything.

The last decides what a broken connection means: a call that only reads is repeated, one that changes is reported as
ambiguous. Two kinds perform themselves differently: a ``Call`` has its own structs, because its Hive 2 form lacks fields
or does not exist; a ``PlainCall`` is ``hmsclient``'s generated one, which is right where names and flags go in and
texts come out, as in every generation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Protocol, TypeVar

from thrift.Thrift import TApplicationException, TMessageType

from handlers.metastore.hive_version import V2_3, HiveVersion
from handlers.structs.struct import Struct, resolve


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.structs.exceptions import HiveException


R_co = TypeVar("R_co", covariant=True)


class AnyCall(Protocol[R_co]):
    """What a connection performs."""

    @property
    def name(self) -> str:
        """Hive's name of the call."""

    @property
    def changes(self) -> bool:
        """Whether it changes anything, so that it must not be repeated blindly."""

    def exists_in(self, generation: HiveVersion) -> bool:
        """Whether servers of ``generation`` have it."""

    def perform(self, client: Any, arguments: tuple[Any, ...]) -> R_co:
        """Send it over ``hmsclient``'s client and return the answer; raises what thrift raises."""


@dataclass(frozen=True, slots=True)
class _Named:
    """What both kinds have: a name, whether they change anything, and the generations that have them."""

    name: str
    changes: bool = field(kw_only=True)
    since: HiveVersion = field(default=V2_3, kw_only=True)
    until: HiveVersion | None = field(default=None, kw_only=True)

    def exists_in(self, generation: HiveVersion) -> bool:
        """Whether servers of ``generation`` have it."""
        return self.since <= generation and (self.until is None or generation <= self.until)


@dataclass(frozen=True, slots=True)
class PlainCall(_Named, Generic[R_co]):
    """A call as ``hmsclient`` has it."""

    returns: type[R_co]

    def __post_init__(self) -> None:
        DECLARED.setdefault(self.name, self)

    def perform(self, client: Any, arguments: tuple[Any, ...]) -> R_co:
        """Send it and return the answer."""
        answer: R_co = getattr(client, self.name)(*arguments)
        return answer


@dataclass(frozen=True, slots=True)
class Call(_Named, Generic[R_co]):
    """A call with structs of ours. ``takes`` maps argument names to types, numbered from 1; so are ``raises``.

    ``returns`` is ``NoneType`` where nothing comes back but the end of the call.
    """

    takes: Mapping[str, Any]
    returns: type[R_co]
    raises: tuple[type[HiveException], ...]
    arguments_struct: type[Struct] = field(init=False)
    answer_struct: type[Struct] = field(init=False)

    def __post_init__(self) -> None:
        arguments = {name: (number, kind) for number, (name, kind) in enumerate(self.takes.items(), 1)}
        answer: dict[str, Any] = {f"o{number}": (number, kind) for number, kind in enumerate(self.raises, 1)}
        if self.returns is not NoneType:
            answer["success"] = (0, self.returns)
        object.__setattr__(self, "arguments_struct", _struct(f"{self.name}_args", arguments))
        object.__setattr__(self, "answer_struct", _struct(f"{self.name}_result", answer))
        resolve()
        DECLARED.setdefault(self.name, self)

    def perform(self, client: Any, arguments: tuple[Any, ...]) -> R_co:
        """Send it and return the answer."""
        self._send(client._oprot, arguments)  # noqa: SLF001 - generated clients have no other way to their protocol
        answer = self._receive(client._iprot)  # noqa: SLF001 - likewise
        for number in range(1, len(self.raises) + 1):
            refusal = getattr(answer, f"o{number}")
            if refusal is not None:
                raise refusal
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
"""Every call that the client knows, by name; the first declaration where one has a second form for Hive 2."""


def _struct(name: str, fields: Mapping[str, tuple[int, Any]]) -> type[Struct]:
    annotations = {
        field_name: Annotated[kind | None, number] for field_name, (number, kind) in fields.items()
    }
    unset = dict.fromkeys(fields)
    return type(name, (Struct,), {"__annotations__": annotations, "__module__": __name__, **unset})
