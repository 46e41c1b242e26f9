"""A metastore that answers scripted bytes, and a client that sends bytes: for tests in which every byte
counts."""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final, Self

from daemon.endpoint.protocol.peer import Peer, shut_down
from daemon.endpoint.protocol.streams import Transport, receive_request
from daemon.endpoint.protocol.wire import Header, Message, text_value, write_struct


TIMEOUT_S: Final = 20.0


def call(name: str, body: bytes = b"\x00", *, sequence: int = 7, strict: bool = True, kind: int = 1) -> bytes:
    """Return a request."""
    return Header(name, kind, sequence, strict).to_bytes() + body


def reply(name: str, body: bytes = b"\x00", *, sequence: int = 7) -> bytes:
    """Return an ordinary answer."""
    return call(name, body, sequence=sequence, kind=2)


def unknown_method(name: str, *, sequence: int = 7) -> bytes:
    """Return what a server answers to a call that it does not have."""
    text = text_value(f"Invalid method name: '{name}'")
    body = b"\x0b\x00\x01" + text.data + b"\x08\x00\x02" + struct.pack(">i", 1) + b"\x00"
    return call(name, body, sequence=sequence, kind=3)


def names(*texts: str) -> bytes:
    """Return a struct of texts, numbered from 1."""
    return write_struct((number, text_value(text)) for number, text in enumerate(texts, 1))


class Last(bytes):
    """Bytes after which the metastore closes the connection."""

    __slots__ = ()


class RawMetastore:
    """Answers each request with the next scripted bytes of its call; a context manager."""

    def __init__(
        self, transport: Transport = Transport.BUFFERED, begin: Callable[[Peer], object] | None = None
    ) -> None:
        self.transport = transport
        self.begin = begin
        """What happens on a new connection before its first request, such as a handshake."""
        self.requests: list[bytes] = []
        self.script: dict[str, deque[bytes]] = {}
        self.connections = 0
        self.received = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []

    def will(self, name: str, *answers: bytes) -> None:
        self.script.setdefault(name, deque()).extend(answers)

    def disconnect(self) -> None:
        for handle in self._open:
            shut_down(handle, socket.SHUT_RDWR)
        self._open.clear()

    def say(self, answer: bytes) -> None:
        """Send an answer on every connection, such as that to a call which was not answered yet."""
        for handle in self._open:
            handle.sendall(self.transport.wrap(answer))

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.disconnect()

    def _accept(self) -> None:
        while True:
            try:
                handle, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(handle)
            threading.Thread(target=self._serve, args=(handle,), daemon=True).start()

    def _serve(self, handle: socket.socket) -> None:
        peer = Peer(handle)
        try:
            if self.begin is not None:
                self.begin(peer)
            while True:
                request = receive_request(peer, self.transport, bytes_max=1 << 28, complete_s=TIMEOUT_S)
                self.requests.append(request.raw)
                self.received.set()
                if not self._answer(request, peer):
                    return
        except (OSError, EOFError):
            return
        finally:
            shut_down(peer.handle, socket.SHUT_RDWR)
            peer.close()

    def _answer(self, request: Message, peer: Peer) -> bool:
        scripted = self.script.get(request.name)
        if not scripted:
            return True  # as for a call that the metastore is still working on
        answer = scripted.popleft()
        peer.send(self.transport.wrap(answer), TIMEOUT_S)
        return not isinstance(answer, Last)


class RawClient:
    """A client's socket."""

    def __init__(self, port: int) -> None:
        self.handle: socket.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)

    def send(self, data: bytes) -> None:
        self.handle.sendall(data)

    def receive(self, size: int) -> bytes:
        """Return exactly ``size`` bytes, fewer at the end of the connection."""
        data = b""
        while len(data) < size:
            chunk = self.handle.recv(min(1 << 16, size - len(data)))
            if not chunk:
                break
            data += chunk
        return data

    def receive_to_end(self) -> bytes:
        """Return everything until the connection is closed, by whichever means."""
        data = b""
        try:
            while chunk := self.handle.recv(1 << 16):
                data += chunk
        except ConnectionError:
            pass
        return data


def closed_port() -> int:
    """Return a port on which nothing listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def clients(port: int) -> Iterator[Callable[[], RawClient]]:
    """Provide a function that connects clients, and close them afterwards."""
    opened: list[RawClient] = []

    def connect() -> RawClient:
        opened.append(RawClient(port))
        return opened[-1]

    try:
        yield connect
    finally:
        for client in opened:
            client.handle.close()
