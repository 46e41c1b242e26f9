"""The listener of the site with the JSON API, and how commands on this machine reach it.

``<state.dir>/http.json`` holds its address and that of the probes (``daemon.http.probes``) for them, and
``<state.dir>/http.token`` a token. It is new at each start, and only the daemon's user can read it: that user
may change the state directory anyway, so it has the role *operate*.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette

from daemon.http.access import Access, Gate
from daemon.http.endpoints import UNROUTED
from daemon.http.tokens import Client, Role, TokenFile, Tokens
from daemon.http.transport.limits import Limits
from daemon.http.transport.server import HttpServer, bind, reachable
from daemon.http.transport.tls import ServerTls
from daemon.state_directory.directory import ADDRESS_FILE, TOKEN_FILE, write_atomically


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from starlette.routing import BaseRoute

    from daemon.config.settings.process import HttpConfig


LOCAL: Final = "this-machine"
"""Name of the client that has the token of the state directory."""


class Site:
    """The listener. Raises ConfigError if its address, a certificate or a token file is unusable."""

    def __init__(
        self,
        config: HttpConfig,
        routes: Sequence[BaseRoute],
        refused: Callable[[str], None],
    ) -> None:
        """``refused`` counts refusals, by reason."""
        tls = config.tls
        self._tls = None if tls is None else ServerTls(tls.certificate, tls.key, tls.client_ca)
        tokens = Tokens(
            [
                TokenFile(Client(name, Role[each.role.upper()]), each.file)
                for name, each in config.tokens.items()
            ]
        )
        self._token = tokens.add_own(LOCAL)
        has_clients = len(tokens) > 0 or (tls is not None and tls.client_ca is not None)
        access = Access(
            tokens=tokens,
            allows_anonymous=config.allow_anonymous or not has_clients,
            names=frozenset(name.lower() for name in config.names),
            operators=frozenset(() if tls is None else tls.operators),
        )
        limits = Limits(
            connections=config.connections_max,
            connections_per_address=config.connections_per_address_max,
            answers_bytes=config.answers_bytes_max,
        )
        app = Gate(Starlette(routes=list(routes), exception_handlers=UNROUTED), access, refused)
        self._server = HttpServer(
            app, bind(config.host, config.port), limits=limits, tls=self._tls, refused=refused
        )
        self._files: tuple[Path, ...] = ()

    @property
    def address(self) -> str:
        """The address of the site, as ``host:port``."""
        return f"{self._server.host}:{self._server.port}"

    def start(self, state_dir: Path, probes: tuple[str, int]) -> None:
        """Start, and write how commands on this machine reach this listener and that of the probes."""
        self._server.start()
        self._files = (state_dir / ADDRESS_FILE, state_dir / TOKEN_FILE)
        address, token = self._files
        write_private(token, self._token)
        write_atomically(address, self._describe(*probes))

    def close(self) -> None:
        """Stop, within ``daemon.http.transport.server.STOP_S``."""
        self._server.close()
        for file in self._files:
            with contextlib.suppress(OSError):
                file.unlink()

    def _describe(self, probes_host: str, probes_port: int) -> dict[str, Any]:
        return {
            "host": reachable(self._server.host),
            "port": self._server.port,
            "probes_host": reachable(probes_host),
            "probes_port": probes_port,
            "certificate": None if self._tls is None else self._tls.fingerprint(),
            "pid": os.getpid(),
        }


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read, from its first byte on."""
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor, for the mode
        file.write(text)
    draft.replace(path)
