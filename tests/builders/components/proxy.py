"""A TCP proxy in front of a component, which a test stops to cut the connection while the component serves
others."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self


class Proxy:
    """Forwards connections to ``host:port`` during a ``with`` block, except while it is cut."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition("://")[2].rpartition(":")
        self._to = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_cut = False

    @property
    def address(self) -> str:
        """Where it listens, as ``host:port``."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """Close all connections, and each further one as soon as it is made."""
        with self._lock:
            self._is_cut = True
            sockets, self._open = self._open, set()
        for each in sockets:
            _close(each)

    def join(self) -> None:
        """Forward connections again."""
        with self._lock:
            self._is_cut = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        _close(self._listener)
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._to)
        except OSError:
            _close(client)
            return
        with self._lock:
            if not self._is_cut:
                self._open |= {client, server}
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=_forward, args=pair, daemon=True).start()
                return
        _close(client)
        _close(server)


def _forward(origin: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := origin.recv(1 << 16):
            to.sendall(data)
    _close(origin)
    _close(to)


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
