"""Structs as bytes: Thrift's binary protocol, as the metastore itself sends them, for what is kept in a store.

Fields that this version does not know are passed over, as on the wire, so a newer one may read what an older one wrote and the
other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TException
from thrift.transport.TTransport import TMemoryBuffer

from state.errors import MalformedEvent


if TYPE_CHECKING:
    from handlers.structs.struct import Struct


S = TypeVar("S", bound="Struct")
_BROKEN: Final = (
    TException,
    AttributeError,
    EOFError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What thrift raises, in C and in Python, for a value of another type, for a text that is no Unicode and for bytes cut off."""


def encode(value: Struct) -> bytes:
    """Return ``value`` in Thrift's binary form; raise MalformedEvent where a field has a value of another type than its own."""
    buffer = TMemoryBuffer()
    try:
        value.write(TBinaryProtocolAccelerated(buffer))
    except _BROKEN as error:
        raise _malformed(type(value), error) from error
    return bytes(buffer.getvalue())


def decode(cls: type[S], data: bytes) -> S:
    """Read a struct; raise MalformedEvent where the bytes are none."""
    made = cls()
    try:
        made.read(TBinaryProtocolAccelerated(TMemoryBuffer(data)))
    except _BROKEN as error:
        raise _malformed(cls, error) from error
    return made


def _malformed(cls: type[Struct], error: BaseException) -> MalformedEvent:
    reason = str(error) or type(error).__name__
    return MalformedEvent(f"The bytes are no {cls.__name__}.", struct=cls.__name__, reason=reason[:300])
