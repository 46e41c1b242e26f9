"""The HTTP server: its thread, its socket, and the file with its address.

The socket is bound before the thread starts, so that a port in use is reported to the caller, and so that the
real port is known if the setting is 0. ``<state.dir>/http.json`` holds it for ``tideline status``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import TYPE_CHECKING, Final

import uvicorn

from daemon.process.state_directory import ADDRESS_FILE, write_atomically
from state.errors import ConfigError


if TYPE_CHECKING:
    from pathlib import Path

    from starlette.applications import Starlette


CONNECTIONS_MAX: Final = 64
STOP_S: Final = 2.0


class HttpServer:
    """Serves ``app`` until it is closed. Raises ConfigError if the address cannot be used."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        self._socket = _bind(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                access_log=False,
                h11_max_incomplete_event_size=16 * 1024,
                http="h11",
                lifespan="off",
                limit_concurrency=CONNECTIONS_MAX,
                log_config=None,  # records go to the logs of the process
                loop="asyncio",
                server_header=False,
                timeout_graceful_shutdown=1,
                timeout_keep_alive=5,
                ws="none",
            )
        )
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)
        self._address_file: Path | None = None

    def start(self, state_dir: Path | None = None) -> None:
        """Start the server; write its address to ``state_dir``."""
        self._thread.start()
        if state_dir is not None:
            self._address_file = state_dir / ADDRESS_FILE
            write_atomically(
                self._address_file, {"host": _reachable(self.host), "port": self.port, "pid": os.getpid()}
            )

    def close(self) -> None:
        """Stop the server, within ``STOP_S``."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
        self._socket.close()
        if self._address_file is not None:
            with contextlib.suppress(OSError):
                self._address_file.unlink()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(CONNECTIONS_MAX)
    except (OSError, OverflowError) as error:
        bound.close()
        raise ConfigError(
            "the HTTP address cannot be used",
            hint="Set http.host and http.port to a free address; port 0 selects a free port.",
            key="http.port",
            value=f"{host}:{port}",
            reason=getattr(error, "strerror", None) or str(error),
        ) from error
    return bound


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
