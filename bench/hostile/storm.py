"""Thousands of clients that misbehave: ``python -m bench.hostile.storm PORT=PROTOCOL …``.

A part of each port's connections is silent. A second part sends a request at one byte a second. A third part
is half-open: it sends the first half of a request and closes its sending side. On HTTP, a fourth part
requests answers without reading them; with the metastore's protocol, that would be a storm of calls to the
metastore behind the endpoint. The clients use twenty addresses. If the server closes a connection, the client
opens another one after a pause, so that the storm lasts. The process prints a line when all connections have
been opened, and ends when its standard input closes.
"""

from __future__ import annotations

import contextlib
import errno
import random
import resource
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from typing import Final


NUMBER: Final = 1_000
"""Connections to each port."""
REOPEN_S: Final = (2.5, 7.5)
BYTE_S: Final = 1.0
HOST: Final = "127.0.0.1"
ADDRESSES: Final = tuple(f"127.0.1.{number}" for number in range(1, 21))
KINDS: Final = {
    "http": ("silent", "slow", "half-open", "unread"),
    "thrift": ("silent", "slow", "half-open"),
}
_NAME: Final = b"get_all_databases"
REQUESTS: Final = {
    "http": b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nx-filler: " + b"x" * 500 + b"\r\n\r\n",
    "thrift": struct.pack(">II", 0x80010001, len(_NAME)) + _NAME + b"\0\0\0\1\0",
}
_IP_BIND_ADDRESS_NO_PORT: Final = 24
"""Chooses the local port at the connection, so that one may be used for several destinations."""
_GONE: Final = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


def _next_s() -> float:
    return time.monotonic() + random.uniform(*REOPEN_S)


class Client:
    """One client of the storm, which connects again whenever the server closes its connection."""

    def __init__(self, number: int, port: int, protocol: str) -> None:
        kinds = KINDS[protocol]
        self.kind = kinds[number % len(kinds)]
        self._address, self._port = ADDRESSES[number % len(ADDRESSES)], port
        self._request = REQUESTS[protocol]
        self._handle: socket.socket | None = None
        self._sent = 0
        self.open_s = 0.0
        """When to open it; infinite while it is open."""

    def open(self) -> int | None:
        """Open the connection without waiting; return its descriptor, or None if it fails at once."""
        handle = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        handle.setblocking(False)
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        handle.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
        handle.bind((self._address, 0))
        if handle.connect_ex((HOST, self._port)) not in {0, errno.EINPROGRESS}:
            handle.close()
            self.open_s = _next_s()
            return None
        self._handle, self._sent, self.open_s = handle, 0, float("inf")
        return handle.fileno()

    def begin(self) -> None:
        """Send the first bytes on the new connection."""
        assert self._handle is not None
        with contextlib.suppress(OSError):
            if self.kind == "unread":
                self._handle.send(self._request * 20)
            elif self.kind == "half-open":
                self._handle.send(self._request[: len(self._request) // 2])
                self._handle.shutdown(socket.SHUT_WR)

    def send_byte(self) -> None:
        """Send one more byte of a slow request, which never ends."""
        if self._handle is not None and self.kind == "slow":
            at = min(self._sent, len(self._request) - 5)
            with contextlib.suppress(OSError):
                self._sent += self._handle.send(self._request[at : at + 1])

    def close(self) -> None:
        """Close the connection. The client opens another one later."""
        if self._handle is not None:
            self._handle.close()
        self._handle, self.open_s = None, _next_s()


class Storm:
    """All clients, in one thread."""

    def __init__(self, clients: list[Client]) -> None:
        self._clients = clients
        self._poll = select.epoll()
        self._by_descriptor: dict[int, Client] = {}
        self._byte_s = 0.0

    def turn(self) -> None:
        """Open connections that are due, send bytes, and detect connections that the server has closed."""
        now_s = time.monotonic()
        for client in self._clients:
            if client.open_s <= now_s and (descriptor := client.open()) is not None:
                self._by_descriptor[descriptor] = client
                self._poll.register(descriptor, select.EPOLLOUT | _GONE)
        if now_s >= self._byte_s:
            self._byte_s = now_s + BYTE_S
            for client in self._clients:
                client.send_byte()
        for descriptor, event in self._poll.poll(0.1):
            client = self._by_descriptor[descriptor]
            if event & _GONE:
                self._poll.unregister(descriptor)
                client.close()
            elif event & select.EPOLLOUT:
                client.begin()
                self._poll.modify(descriptor, _GONE)


def make_clients(targets: list[str]) -> Iterator[Client]:
    """Yield the clients of each ``PORT=PROTOCOL``."""
    for target in targets:
        port, protocol = target.split("=")
        for number in range(NUMBER):
            yield Client(number, int(port), protocol)


def main(targets: list[str]) -> None:
    """Run the storm until the standard input closes."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    storm = Storm(list(make_clients(targets)))
    storm.turn()
    storm.turn()
    print("all were opened", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        storm.turn()


if __name__ == "__main__":
    main(sys.argv[1:])
