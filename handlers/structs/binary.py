"""Structs as bytes in Thrift's binary protocol, as the metastore itself sends them;
the format of structs kept in a store.

Unknown fields are skipped, as on the wire, so newer and older versions of Tideline can read each other's
data.
"""

from __future__ import annotations

from typing import Final, TypeVar

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TException
from thrift.transport.TTransport import TMemoryBuffer

from handlers.structs.struct import Struct
from state.errors import MalformedEvent


S = TypeVar("S", bound="Struct")
_THRIFT_ERRORS: Final = (
    TException,
    AttributeError,
    EOFError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Exceptions of Thrift, in C and in Python, for a value of the wrong type, invalid Unicode or truncated
bytes."""


def encode(value: Struct) -> bytes:
    """Return ``value`` in Thrift's binary form;
    raise MalformedEvent if a field has a value of the wrong type.
    """
    buffer = TMemoryBuffer()
    try:
        value.write(TBinaryProtocolAccelerated(buffer))
    except _THRIFT_ERRORS as error:
        raise _malformed(type(value), error) from error
    return bytes(buffer.getvalue())


def decode(cls: type[S], data: bytes) -> S:
    """Read a struct; raise MalformedEvent if ``data`` is not a ``cls``."""
    value = cls()
    try:
        value.read(TBinaryProtocolAccelerated(TMemoryBuffer(data)))
    except _THRIFT_ERRORS as error:
        raise _malformed(cls, error) from error
    return value


def _malformed(cls: type[Struct], error: BaseException) -> MalformedEvent:
    reason = str(error) or type(error).__name__
    return MalformedEvent(
        f"the bytes are not a valid {cls.__name__}", struct=cls.__name__, reason=reason[:300]
    )
