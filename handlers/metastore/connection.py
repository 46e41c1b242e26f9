"""One TCP connection to one metastore, with a deadline for each call and a limit on the size of an answer.

A connection that has failed once is not used again, because bytes that arrive later would be taken for the answer to another
call. The connection records whether a request was sent completely: only then can it have taken effect.
"""

from __future__ import annotations

import socket
import ssl
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
from handlers.metastore.hive_version import AMBIGUOUS_VERSION, V2_3, V3_1, HiveVersion, parse_hive_version
from handlers.structs.exceptions import HiveException, MetaException
from handlers.structs.objects import GetCatalogsResponse
from state.errors import ConfigError, InvalidRequest, LimitExceeded


R = TypeVar("R")

SCHEME: Final = "thrift"
TLS_SCHEME: Final = "thrift+tls"
DEFAULT_PORT: Final = 9083
_READ_BYTES: Final = 64 * 1024
_STREAM_FACTOR: Final = 16
"""An answer that is processed while it arrives may have so many times the limit."""
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
    """The address of a metastore."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        return f"{TLS_SCHEME if self.tls else SCHEME}://{self.host}:{self.port}"

    @staticmethod
    def parse(uri: str) -> Address:
        """Parse ``thrift://host:port`` or ``thrift+tls://host:port``; raise ConfigError for anything else."""
        try:
            parts = urlsplit(uri if "//" in uri else f"thrift://{uri}")
            host, port = parts.hostname, parts.port or DEFAULT_PORT
        except ValueError:
            host, port = None, 0
        if not host or parts.scheme not in {SCHEME, TLS_SCHEME} or parts.path not in {"", "/"}:
            raise ConfigError("a metastore address must have the form thrift://host:port", value=uri)
        return Address(host, port, tls=parts.scheme == TLS_SCHEME)


def system_tls() -> ssl.SSLContext:
    """Return how a metastore with TLS is connected to: its certificate must be valid for its host name.

    An authority of the system must have signed it, or one of the file that ``SSL_CERT_FILE`` names.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class BrokenConnectionError(Exception):
    """The connection can no longer be used. ``sent`` means that the request was sent completely and may have taken effect."""

    def __init__(self, cause: BaseException, *, sent: bool) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.sent = sent


class Connection:
    """A connection to one server, created by ``connect``."""

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
        """Connect, set the user, and determine the server's Hive version; raises BrokenConnectionError or Unsupported."""
        connection = cls(address, reply_bytes_max=reply_bytes_max)
        try:
            connection._socket.begin(deadline)
            connection._socket.open()
            if user is not None:
                connection.perform(_SET_USER, (user, [user]), deadline)
            connection.hive_version = connection._determine_hive_version(deadline)
        except (HiveException, TException) as error:
            connection.close()
            raise BrokenConnectionError(error, sent=False) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _determine_hive_version(self, deadline: float) -> HiveVersion:
        answer = self.perform(_GET_VERSION, (), deadline)
        if answer != AMBIGUOUS_VERSION:
            return parse_hive_version(answer)
        try:
            self.perform(_CATALOGS, (), deadline)
        except TApplicationException as error:
            if error.type != TApplicationException.UNKNOWN_METHOD:
                raise
            return V2_3
        return V3_1

    def is_open(self) -> bool:
        """Whether the server still holds the connection, as far as is known without a call."""
        return bool(self._socket.isOpen())

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        self._socket.close()

    def perform(self, call: AnyCall[R], arguments: tuple[Any, ...], deadline: float) -> R:
        """Perform one call.

        Raises BrokenConnectionError if the connection failed or the answer is not Thrift, LimitExceeded if the answer is too
        large, InvalidRequest if an argument cannot be serialized, and otherwise the server's answer: a declared exception or
        TApplicationException.
        """
        self._socket.begin(deadline, streams=call.streams)
        try:
            return call.perform(self._client, arguments)
        except _GARBAGE as error:
            self.close()
            raise self._classify(error, call.name) from error
        except (HiveException, TException):
            raise
        except BaseException:
            self.close()  # part of a request may be in the buffer, or part of an answer in the socket
            raise

    def _classify(self, error: Exception, call: str) -> Exception:
        """Return the error that a failure stands for; Thrift raises the same classes for reading and writing."""
        sent, context = self._socket.sent, {"call": call, "address": str(self.address)}
        if self._socket.over_limit or (sent and isinstance(error, OverflowError)) or _is_size_limit(error):
            return LimitExceeded("the metastore's answer is too large", limit=self._socket.limit, **context)
        if not sent and isinstance(error, (TypeError, ValueError, OverflowError)):
            return InvalidRequest("the request cannot be serialized", reason=str(error), **context)
        return BrokenConnectionError(error, sent=sent)


def _is_size_limit(error: Exception) -> bool:
    kinds = (TTransportException.SIZE_LIMIT, TProtocolException.SIZE_LIMIT)
    classes = (TTransportException, TProtocolException)
    return any(
        isinstance(error, cls) and error.type == kind for cls, kind in zip(classes, kinds, strict=True)
    )


class _DeadlineSocket(TSocket):  # type: ignore[misc]  # thrift has no types
    """Thrift's socket with one deadline for all reads and writes of a call, instead of a timeout for each of them."""

    def __init__(self, address: Address, limit: int) -> None:
        super().__init__(address.host, address.port)
        self._tls = address.tls
        self._limit_once = limit
        self.limit = limit
        self.sent = False
        self._deadline = 0.0
        self._silence_s: float | None = None
        self._received = 0

    @property
    def over_limit(self) -> bool:
        """Whether the answer was cut off because of its size."""
        return self._received > self.limit

    def begin(self, deadline: float, *, streams: bool = False) -> None:
        """Start a call. For one that ``streams`` the limit is higher, and the deadline moves with every byte that arrives."""
        self._deadline = deadline
        self._silence_s = deadline - time.monotonic() if streams else None
        self.limit = self._limit_once * (_STREAM_FACTOR if streams else 1)
        self._received = 0
        self.sent = False

    def open(self) -> None:
        """Connect without the messages that Thrift logs for every refused connection."""
        try:
            self.handle = socket.create_connection((self.host, self.port), timeout=self._remaining())
            self.handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._tls:
                self._begin_tls(self.handle)
        except OSError as error:  # ssl.SSLError is one
            raise TTransportException(TTransportException.NOT_OPEN, str(error)) from error

    def _begin_tls(self, plain: socket.socket) -> None:
        self.handle = system_tls().wrap_socket(
            plain, server_hostname=self.host, do_handshake_on_connect=False
        )
        self.handle.settimeout(self._remaining())
        self.handle.do_handshake()

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        """Whether the server still holds the connection; called between calls only.

        Thrift's own method looks at the next byte, which TLS does not permit. Between calls only messages of TLS itself arrive, and reading
        processes them.
        """
        if not isinstance(self.handle, ssl.SSLSocket):
            return bool(super().isOpen())
        self.handle.settimeout(0)
        try:
            self.handle.recv(1)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        except OSError:
            return False
        return False

    def read(self, size: int) -> bytes:
        """Read the available bytes, at most ``size``."""
        self._arm()
        chunk: bytes = super().read(size)
        self._received += len(chunk)
        if self.over_limit:
            raise TTransportException(TTransportException.SIZE_LIMIT, "answer too large")
        if chunk and self._silence_s is not None:
            self._deadline = max(self._deadline, time.monotonic() + self._silence_s)
        return chunk

    def write(self, data: bytes) -> None:
        """Write all of ``data``, which is one whole request because the transport above buffers."""
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
