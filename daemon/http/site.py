"""The two listeners of a daemon: the site with the JSON API, and the probes with the metrics.

Each has its own thread, its own connections and its own limits: a client that holds all connections of one,
or has long answers made there, delays nothing on the other. ``<state.dir>/http.json`` holds the addresses for
commands on this machine, and ``<state.dir>/http.token`` a token for them. It is new at each start, and only
the daemon's user can read it: that user may change the state directory anyway, so it has the role *operate*.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette

from daemon.http.access import Access, Gate
from daemon.http.endpoints import UNROUTED
from daemon.http.tokens import Client, Role, TokenFile, Tokens
from daemon.http.transport.limits import PROBES, Limits
from daemon.http.transport.server import HttpServer, reachable
from daemon.http.transport.tls import ServerTls
from daemon.state_directory.directory import ADDRESS_FILE, TOKEN_FILE, write_atomically


if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from starlette.routing import BaseRoute

    from daemon.config.settings.process import HttpConfig
    from daemon.http.metrics import HttpMetrics


LOCAL: Final = "this-machine"
"""Name of the client that has the token of the state directory."""


class Site:
    """Both listeners. Raises ConfigError if an address, a certificate or a token file is unusable."""

    def __init__(
        self,
        config: HttpConfig,
        routes: Sequence[BaseRoute],
        probes: Sequence[BaseRoute],
        metrics: HttpMetrics,
    ) -> None:
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
        refused = metrics.refused_by("site")
        limits = Limits(
            connections=config.connections_max,
            connections_per_address=config.connections_per_address_max,
            answers_bytes=config.answers_bytes_max,
        )
        app = Gate(Starlette(routes=list(routes), exception_handlers=UNROUTED), access, refused)
        self._server = HttpServer(
            app, config.host, config.port, limits=limits, tls=self._tls, refused=refused
        )
        try:
            self._probes = HttpServer(
                Starlette(routes=list(probes), exception_handlers=UNROUTED),
                config.probes_host,
                _probes_port(config),
                limits=PROBES,
                refused=metrics.refused_by("probes"),
                name="probes",
            )
        except BaseException:
            self._server.close()
            raise
        self._files: tuple[Path, ...] = ()

    @property
    def address(self) -> str:
        """The address of the site, as ``host:port``."""
        return f"{self._server.host}:{self._server.port}"

    @property
    def probes_address(self) -> str:
        """The address of probes and metrics, as ``host:port``."""
        return f"{self._probes.host}:{self._probes.port}"

    def start(self, state_dir: Path) -> None:
        """Start both listeners, and write how commands on this machine reach them."""
        self._probes.start()
        self._server.start()
        self._files = (state_dir / ADDRESS_FILE, state_dir / TOKEN_FILE)
        address, token = self._files
        write_private(token, self._token)
        write_atomically(address, self._describe())

    def close(self) -> None:
        """Stop both listeners, each within ``daemon.http.transport.server.STOP_S``."""
        self._server.close()
        self._probes.close()
        for file in self._files:
            with contextlib.suppress(OSError):
                file.unlink()

    def _describe(self) -> dict[str, Any]:
        return {
            "host": reachable(self._server.host),
            "port": self._server.port,
            "probes_host": reachable(self._probes.host),
            "probes_port": self._probes.port,
            "certificate": None if self._tls is None else self._tls.fingerprint(),
            "pid": os.getpid(),
        }


def _probes_port(config: HttpConfig) -> int:
    if config.probes_port is not None:
        return config.probes_port
    return 0 if config.port == 0 else config.port + 1


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read, from its first byte on."""
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor, for the mode
        file.write(text)
    draft.replace(path)
