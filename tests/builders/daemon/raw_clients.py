"""Clients that misbehave on purpose, with plain sockets."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


HOST = "127.0.0.1"
DEADLINE_S = 60.0
"""After which a test fails; nothing waits so long if it works."""


@contextmanager
def connected(port: int, number: int = 1, source: str = HOST) -> Iterator[list[socket.socket]]:
    """Open silent connections, from an address of this machine."""
    with ExitStack() as stack:
        yield [stack.enter_context(connect(port, source)) for _ in range(number)]


def connect(port: int, source: str = HOST) -> socket.socket:
    """Open one silent connection."""
    client = socket.create_connection((HOST, port), DEADLINE_S, (source, 0))
    client.settimeout(DEADLINE_S)
    return client


def rest_of(client: socket.socket) -> bytes:
    """Return what arrives until the server closes the connection, which may be abruptly."""
    received = b""
    try:
        while more := client.recv(65_536):
            received += more
    except ConnectionError:
        pass
    return received


def status_on(client: socket.socket) -> int:
    """Read one answer completely, and return its status."""
    answer = http.client.HTTPResponse(client)
    answer.begin()
    answer.read()
    return answer.status


def is_closed(client: socket.socket) -> bool:
    """Whether the server has closed a connection on which nothing was sent."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    finally:
        client.settimeout(DEADLINE_S)
