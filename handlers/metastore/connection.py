"""One TCP connection to one metastore, with a deadline per call and a limit on what an answer may hold.

A connection that has failed once is broken for good: what comes in later would be taken for the answer to another call.
Whether the request had left completely is remembered, since only then can it have taken effect.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from hmsclient.hmsclient import HMSClient
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from handlers.metastore.calls import AnyCall, Call, PlainCall
from handlers.metastore.hive_version import AMBIGUOUS_ANSWER, V2_3, V3_1, HiveVersion, parse_hive_version
from handlers.structs.exceptions import HiveException, MetaException
from handlers.structs.objects import GetCatalogsResponse
from state.errors import ConfigError, InvalidRequest, LimitExceeded


R = TypeVar("R")

DEFAULT_PORT: Final = 9083
_READ_BYTES: Final = 64 * 1024
_GARBAGE: Final = (
    TTransportException,
    TProtocolException,
    EOFError,
    OSError,
    TypeError,
    ValueError,
    OverflowError,
)
_GET_VERSION: Final = PlainCall("getVersion", str, changes=False)
_CATALOGS: Final = Call("get_catalogs", {}, GetCatalogsResponse, (MetaException,), changes=False, since=V3_1)
_SET_USER: Final = PlainCall("set_ugi", list[str], changes=False)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a metastore listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"thrift://{self.host}:{self.port}"

    @staticmethod
    def parse(uri: str) -> Address:
        """Read ``thrift://host:port``; raise ConfigError for anything else."""
        try:
            parts = urlsplit(uri if "//" in uri else f"thrift://{uri}")
            host, port = parts.hostname, parts.port or DEFAULT_PORT
        except ValueError:
            host, port = None, 0
        if not host or parts.scheme != "thrift":
            raise ConfigError("A metastore's address has the form thrift://host:port.", value=uri)
        return Address(host, port)


class Broken(Exception):  # noqa: N818 - a state of the connection, caught by the caller in this package
    """The connection cannot be used any more. ``sent``: the whole request had left, so it may have taken effect."""

    def __init__(self, cause: BaseException, *, sent: bool) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.sent = sent


class Connection:
    """Performs calls on one server; made by ``connect``."""

    def __init__(self, address: Address, *, reply_bytes_max: int) -> None:
        self.address = address
        self.hive_version = HiveVersion(0, 0)
        self._socket = _DeadlineSocket(address, reply_bytes_max)
        protocol = TBinaryProtocolAccelerated(
            TBufferedTransport(self._socket, rbuf_size=_READ_BYTES),
            strictRead=True,
            string_length_limit=reply_bytes_max,
            container_length_limit=reply_bytes_max,  # an element has at least one byte
        )
        self._client: Any = HMSClient(protocol)

    @classmethod
    def connect(
        cls, address: Address, *, user: str | None, reply_bytes_max: int, deadline: float
    ) -> Connection:
        """Connect, say who we are, and learn the server's generation; raises Broken or Unsupported."""
        made = cls(address, reply_bytes_max=reply_bytes_max)
        try:
            made._socket.begin(deadline)
            made._socket.open()
            if user is not None:
                made.perform(_SET_USER, (user, [user]), deadline)
            made.hive_version = made._ask_hive_version(deadline)
        except (HiveException, TException) as error:
            made.close()
            raise Broken(error, sent=False) from error
        except BaseException:
            made.close()
            raise
        return made

    def _ask_hive_version(self, deadline: float) -> HiveVersion:
        answer = self.perform(_GET_VERSION, (), deadline)
        if answer != AMBIGUOUS_ANSWER:
            return parse_hive_version(answer)
        try:
            self.perform(_CATALOGS, (), deadline)
        except TApplicationException as error:
            if error.type != TApplicationException.UNKNOWN_METHOD:
                raise
            return V2_3
        return V3_1

    def is_open(self) -> bool:
        """Whether the server still holds the connection, so far as can be known without a call."""
        return bool(self._socket.isOpen())

    def close(self) -> None:
        """Close; closing twice is no error."""
        self._socket.close()

    def perform(self, call: AnyCall[R], arguments: tuple[Any, ...], deadline: float) -> R:
        """Perform one call.

        Raises Broken where the connection failed or what came is no Thrift, LimitExceeded where the answer is too large,
        InvalidRequest where an argument cannot be written, and otherwise what the server answered: a declared exception,
        or TApplicationException.
        """
        self._socket.begin(deadline)
        try:
            return call.perform(self._client, arguments)
        except _GARBAGE as error:
            self.close()
            raise self._told_apart(error, call.name) from error
        except (HiveException, TException):
            raise
        except BaseException:
            self.close()  # half a request may be in the buffer, half an answer in the socket
            raise

    def _told_apart(self, error: Exception, call: str) -> Exception:
        """Return what a failure means; thrift raises the same classes for reading and writing."""
        sent, context = self._socket.sent, {"call": call, "address": str(self.address)}
        if self._socket.over_limit or (sent and isinstance(error, OverflowError)) or _is_size_limit(error):
            return LimitExceeded("The metastore's answer is too large.", limit=self._socket.limit, **context)
        if not sent and isinstance(error, (TypeError, ValueError, OverflowError)):
            return InvalidRequest("The request cannot be written.", reason=str(error), **context)
        return Broken(error, sent=sent)


def _is_size_limit(error: Exception) -> bool:
    kinds = (TTransportException.SIZE_LIMIT, TProtocolException.SIZE_LIMIT)
    classes = (TTransportException, TProtocolException)
    return any(
        isinstance(error, cls) and error.type == kind for cls, kind in zip(classes, kinds, strict=True)
    )


class _DeadlineSocket(TSocket):  # type: ignore[misc]  # thrift has no types
    """Thrift's socket with a deadline over all reads and writes of a call, instead of a timeout for each of them."""

    def __init__(self, address: Address, limit: int) -> None:
        super().__init__(address.host, address.port)
        self.limit = limit
        self.sent = False
        self._deadline = 0.0
        self._received = 0

    @property
    def over_limit(self) -> bool:
        """Whether the answer was cut off for its size."""
        return self._received > self.limit

    def begin(self, deadline: float) -> None:
        """Start a call."""
        self._deadline = deadline
        self._received = 0
        self.sent = False

    def open(self) -> None:
        """Connect without the messages that thrift logs for every refusal."""
        try:
            self.handle = socket.create_connection((self.host, self.port), timeout=self._remaining())
        except OSError as error:
            raise TTransportException(TTransportException.NOT_OPEN, str(error)) from error
        self.handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def read(self, size: int) -> bytes:
        """Read what is there, at most ``size`` bytes."""
        self._arm()
        chunk: bytes = super().read(size)
        self._received += len(chunk)
        if self.over_limit:
            raise TTransportException(TTransportException.SIZE_LIMIT, "answer too large")
        return chunk

    def write(self, data: bytes) -> None:
        """Write all of ``data``: one whole request, since the transport above buffers."""
        self._arm()
        super().write(data)
        self.sent = True

    def _arm(self) -> None:
        if self.handle is None:
            raise TTransportException(TTransportException.NOT_OPEN, "not connected")
        self.handle.settimeout(self._remaining())

    def _remaining(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TTransportException(TTransportException.TIMED_OUT, "the deadline has passed")
        return remaining
