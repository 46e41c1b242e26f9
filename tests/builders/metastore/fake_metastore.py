"""A metastore that misbehaves on request: real sockets and Thrift's own protocol, scripted answers.

It serves paths that a real metastore takes only when it dies. The first reaction in the script of a call
determines the response; without one the call is answered as usual. Each reaction is used once.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Annotated, Any, Self

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TMemoryBuffer, TTransportException

from handlers.metastore.calls import DECLARED, Call
from handlers.structs.exceptions import HiveException
from handlers.structs.notifications import CurrentNotificationEventId
from handlers.structs.objects import GetCatalogsResponse
from handlers.structs.struct import Struct, resolve


UNKNOWN_METHOD = TApplicationException.UNKNOWN_METHOD
Reaction = Callable[["Conversation"], None]


class Conversation:
    """A received request, with the ways to answer it."""

    def __init__(self, server: FakeMetastore, handle: socket.socket, protocol: Any, call: str) -> None:
        self.server = server
        self.handle = handle
        self.call = call
        self._protocol = protocol

    def reply(self, body: Struct) -> None:
        self.send(self.message(body))

    def message(self, body: Struct, kind: int = TMessageType.REPLY) -> bytes:
        buffer = TMemoryBuffer()
        protocol = TBinaryProtocol(buffer)
        protocol.writeMessageBegin(self.call, kind, 0)
        body.write(protocol)
        protocol.writeMessageEnd()
        return bytes(buffer.getvalue())

    def send(self, data: bytes) -> None:
        self.handle.sendall(data)

    def hang_up(self) -> None:
        self.handle.shutdown(socket.SHUT_RDWR)


def returns(value: Any) -> Reaction:
    return lambda talk: talk.reply(_result(talk.call, success=value))


def refuses(exception: HiveException) -> Reaction:
    """Answer with a declared exception."""

    def react(talk: Conversation) -> None:
        call = DECLARED[talk.call]
        assert isinstance(call, Call)
        number = call.raises.index(type(exception)) + 1
        talk.reply(_result(talk.call, **{f"o{number}": exception}))

    return react


def fails(kind: int = TApplicationException.INTERNAL_ERROR, *, then_hangs_up: bool = False) -> Reaction:
    """Answer with one of Thrift's own exceptions, as for undeclared exceptions of a server."""

    def react(talk: Conversation) -> None:
        fault = TApplicationException(kind, f"Internal error processing {talk.call}")
        talk.send(talk.message(fault, TMessageType.EXCEPTION))
        if then_hangs_up:
            talk.hang_up()

    return react


def hangs_up(talk: Conversation) -> None:
    """Close the connection without an answer."""
    talk.hang_up()


def hangs_up_midway(talk: Conversation) -> None:
    """Close after half an answer."""
    answer = talk.message(_result(talk.call))
    talk.send(answer[: len(answer) // 2])
    talk.hang_up()


def keeps_silent(talk: Conversation) -> None:
    """Do not answer before the test ends."""
    talk.server.over.wait(timeout=30)


def says(data: bytes) -> Reaction:
    return lambda talk: talk.send(data)


class FakeMetastore(socketserver.ThreadingTCPServer):
    """A server on a free port; a context manager."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, version: str = "4.2.0", *, catalogs: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.version = version
        self.catalogs = catalogs
        self.over = threading.Event()
        self.calls: list[str] = []
        self.connections: list[socket.socket] = []
        self.script: defaultdict[str, deque[Reaction]] = defaultdict(deque)

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.server_address[1]}"

    def will(self, call: str, *reactions: Reaction) -> None:
        self.script[call].extend(reactions)

    def forget_connections(self) -> None:
        """Close every connection, as a restart or an idle timeout would."""
        for handle in self.connections:
            handle.shutdown(socket.SHUT_RDWR)
        self.connections.clear()

    def react(self, talk: Conversation) -> None:
        self.calls.append(talk.call)
        if self.script[talk.call]:
            self.script[talk.call].popleft()(talk)
        elif talk.call == "getVersion":
            talk.reply(_VersionAnswer(version=self.version))
        elif talk.call == "get_catalogs":
            (returns(GetCatalogsResponse(names=["hive"])) if self.catalogs else fails(UNKNOWN_METHOD))(talk)
        elif talk.call == "get_current_notificationEventId":
            talk.reply(_result(talk.call, success=CurrentNotificationEventId(eventId=7)))
        else:
            talk.reply(_result(talk.call))

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.shutdown()
        self.server_close()


class _Handler(socketserver.BaseRequestHandler):
    server: FakeMetastore

    def handle(self) -> None:
        self.server.connections.append(self.request)
        transport = TSocket()
        transport.setHandle(self.request)
        protocol = TBinaryProtocol(TBufferedTransport(transport))
        try:
            while not self.server.over.is_set():
                call, _, _ = protocol.readMessageBegin()
                protocol.skip(TType.STRUCT)
                protocol.readMessageEnd()
                self.server.react(Conversation(self.server, self.request, protocol, call))
        except (TTransportException, OSError):
            return


def _result(call: str, **fields: Any) -> Struct:
    declared = DECLARED[call]
    assert isinstance(declared, Call)
    return declared.answer_struct(**fields)


class _VersionAnswer(Struct):
    version: Annotated[str | None, 0] = None


resolve()
