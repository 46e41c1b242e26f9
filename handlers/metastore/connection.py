"""One TCP connection to one metastore, with a deadline for each call and a limit on the size of an answer.

A connection that has failed once is out of use, because bytes that arrive later would count as the answer to
another call. The connection records whether it sent a request completely: only then can it have taken effect.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from hmsclient.hmsclient import HMSClient
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from handlers.metastore.addresses import Address, login_at
from handlers.metastore.calls import (
    AMBIGUOUS_VERSION,
    V2_3,
    V3_1,
    AnyCall,
    Call,
    HiveVersion,
    PlainCall,
    parse_hive_version,
)
from handlers.metastore.login.mechanisms import authenticate
from handlers.metastore.login.sasl import Status
from handlers.structs.exceptions import HiveException, MetaException
from handlers.structs.objects import GetCatalogsResponse
from state.errors import InvalidRequest, LimitExceeded, LoginFailed


R = TypeVar("R")

_READ_BYTES: Final = 64 * 1024
_STREAM_FACTOR: Final = 16
"""An answer processed while it arrives may be this many times larger than the limit."""
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


def system_tls() -> ssl.SSLContext:
    """Return the TLS settings for a metastore: its certificate must be valid for its host name.

    An authority of the system must have signed it, or one of the file that ``SSL_CERT_FILE`` names.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class BrokenConnectionError(Exception):
    """The connection is unusable. ``sent`` means that the whole request went out
    and may have taken effect.
    """

    def __init__(self, cause: BaseException, *, sent: bool) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.sent = sent


class Connection:
    """A connection to one server, created by ``connect``."""

    def __init__(self, address: Address, *, reply_bytes_max: int) -> None:
        self.address = address
        self.hive_version = HiveVersion(0, 0)
        self._socket = DeadlineSocket(
            address.host, address.port, system_tls if address.tls else None, reply_bytes_max
        )
        self._reply_bytes_max = reply_bytes_max
        self._client: Any = self._build_client(self._socket)

    @classmethod
    def connect(cls, address: Address, *, reply_bytes_max: int, deadline: float) -> Connection:
        """Connect, and determine the server's Hive version; raises BrokenConnectionError or Unsupported."""
        connection = cls(address, reply_bytes_max=reply_bytes_max)
        try:
            connection._socket.begin(deadline)
            connection._socket.open()
            login = login_at(address.host, address.port)
            if login is not None:
                transport = authenticate(connection._socket, login, address.host)
                connection._client = connection._build_client(transport)
            connection.hive_version = connection._determine_hive_version(deadline)
        except (HiveException, TException, BrokenConnectionError) as error:
            connection.close()
            raise connection._broken(error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _build_client(self, transport: Any) -> Any:
        protocol = TBinaryProtocolAccelerated(
            TBufferedTransport(transport, rbuf_size=_READ_BYTES),
            strictRead=True,
            string_length_limit=self._reply_bytes_max,
            container_length_limit=self._reply_bytes_max,  # an element has at least one byte
        )
        return HMSClient(protocol)

    def _broken(self, error: Exception) -> BrokenConnectionError | LoginFailed:
        """Return the error for a server that did not complete the first calls.

        A metastore that requires SASL refuses other clients: older ones with an error of SASL, whose first
        byte no answer of Thrift has, and Hive 4 by closing the connection, as a server that stops does too.
        """
        address = str(self.address)
        if login_at(self.address.host, self.address.port) is not None:
            return BrokenConnectionError(error, sent=False)
        if self._socket.first_byte in {Status.BAD, Status.ERROR}:
            return LoginFailed(
                "the metastore requires SASL", address=address, hint="Set 'auth' of the source or target."
            )
        if self._socket.was_closed_unanswered:
            error = ConnectionError(
                "the server closed the connection (it may be stopping; if the metastore requires SASL, "
                "set 'auth'; if TLS, write thrift+tls://)"
            )
        return BrokenConnectionError(error, sent=False)

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
        """Whether the server still holds the connection, as far as this side can see without a call."""
        return bool(self._socket.isOpen())

    @property
    def is_closed(self) -> bool:
        """Whether this side has closed the connection."""
        return self._socket.handle is None

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        self._socket.close()

    def perform(self, call: AnyCall[R], arguments: tuple[Any, ...], deadline: float) -> R:
        """Perform one call.

        Raises BrokenConnectionError if the connection failed or the answer is not Thrift, LimitExceeded if
        the answer is too large, InvalidRequest if serializing an argument fails, and otherwise the server's
        answer: a declared exception or TApplicationException.
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
        """Return the error for a failure of a call; Thrift raises the same classes of exceptions for
        reading and writing.
        """
        sent, context = self._socket.sent, {"call": call, "address": str(self.address)}
        is_too_large = (
            self._socket.over_limit
            or (sent and isinstance(error, OverflowError))
            or (isinstance(error, TTransportException) and error.type == TTransportException.SIZE_LIMIT)
            or (isinstance(error, TProtocolException) and error.type == TProtocolException.SIZE_LIMIT)
        )
        if is_too_large:
            return LimitExceeded("the metastore's answer is too large", limit=self._socket.limit, **context)
        if not sent and isinstance(error, (TypeError, ValueError, OverflowError)):
            return InvalidRequest("the request cannot be serialized", reason=str(error), **context)
        return BrokenConnectionError(error, sent=sent)


class DeadlineSocket(TSocket):  # type: ignore[misc]  # thrift has no types
    """Thrift's socket with one deadline for all reads and writes of a call,
    instead of a timeout for each of them.
    """

    def __init__(self, host: str, port: int, tls: Callable[[], ssl.SSLContext] | None, limit: int) -> None:
        super().__init__(host, port)
        self._tls = tls
        self._limit_once = limit
        self.limit = limit
        self.sent = False
        self.first_byte: int | None = None
        """The first byte that the server sent."""
        self.was_closed_unanswered = False
        """Whether the server closed the connection after a request, and never sent anything."""
        self._deadline = 0.0
        self._silence_s: float | None = None
        self._received = 0

    @property
    def over_limit(self) -> bool:
        """Whether the answer is incomplete because of its size."""
        return self._received > self.limit

    def begin(self, deadline: float, *, streams: bool = False) -> None:
        """Start a call. If its answer ``streams``, more bytes are allowed, and the deadline moves with every
        byte that arrives.
        """
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
            if self._tls is not None:
                self.handle = self._tls().wrap_socket(
                    self.handle, server_hostname=self.host, do_handshake_on_connect=False
                )
                self.handle.settimeout(self._remaining())
                self.handle.do_handshake()
        except OSError as error:  # includes ssl.SSLError
            raise TTransportException(TTransportException.NOT_OPEN, str(error)) from error

    def isOpen(self) -> bool:  # noqa: N802 - Thrift's name
        """Whether the server still holds the connection; called between calls only.

        Thrift's own method looks at the next byte, which TLS does not permit. Between calls only messages of
        TLS itself arrive, and reading processes them.
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
        try:
            chunk: bytes = super().read(size)
        except TTransportException as error:
            is_end = error.type == TTransportException.END_OF_FILE
            self.was_closed_unanswered = is_end and self.sent and self.first_byte is None
            raise
        if self.first_byte is None and chunk:
            self.first_byte = chunk[0]
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
