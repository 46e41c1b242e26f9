"""HTTP servers of a daemon, in this process or another, and clients of them."""

from __future__ import annotations

import http.client
import json
from contextlib import closing, contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from daemon.http.access import Access, Gate
from daemon.http.tokens import Client, Role, TokenFile, Tokens
from daemon.http.transport.server import HttpServer, bind
from daemon.state_directory.directory import ADDRESS_FILE, write_atomically
from tests.builders.daemon.assembly import app_of
from tests.builders.daemon.loops import first_that


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from starlette.routing import Route
    from starlette.types import ASGIApp


HOST = "127.0.0.1"
TIMEOUT_S = 10.0
START_S = 300.0
"""A daemon reads all databases of its source before it responds, and a source that many tests share has
hundreds."""


@contextmanager
def served(app: ASGIApp, state_dir: Path | None = None) -> Iterator[HttpServer]:
    """Serve ``app`` on a free port, which ``state_dir`` records."""
    with closing(HttpServer(app, bind(HOST, 0))) as server:
        server.start()
        if state_dir is not None:
            write_atomically(state_dir / ADDRESS_FILE, {"host": HOST, "port": server.port})
        yield server


@dataclass(frozen=True)
class Answer:
    """``headers`` are by their names in lower case."""

    status: int
    text: str
    headers: dict[str, str]


def asked(
    port: int,
    path: str,
    method: str = "GET",
    token: str | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Answer:
    """Send a request without the product's own client."""
    sent = {**headers, **({} if token is None else {"Authorization": f"Bearer {token}"})}
    with closing(http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)) as connection:
        connection.request(method, path, headers=sent)
        answer = connection.getresponse()
        received = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, answer.read().decode(), received)


OPERATOR = "o" * 32
"""The token of an operator of ``operated``."""


@contextmanager
def operated(directory: Path, *routes: Route) -> Iterator[HttpServer]:
    """Serve ``routes`` to an operator whose token is kept in ``directory``."""
    (directory / "operator").write_text(OPERATOR)
    tokens = Tokens([TokenFile(Client("admin", Role.OPERATE), directory / "operator")])
    with served(Gate(app_of(*routes), Access(tokens=tokens), lambda _: None)) as server:
        yield server


def acted(port: int, path: str, body: object = None, token: str | None = OPERATOR) -> tuple[int, Any]:
    """Send an action; return the status and the answer. ``body`` is sent as it is if it is bytes."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    with closing(http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)) as connection:
        connection.request("POST", path, content, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def told_port(state_dir: Path) -> int:
    """Return the port of the daemon whose state is in ``state_dir``."""
    port: int = json.loads((state_dir / "http.json").read_text())["port"]
    return port


@dataclass(frozen=True)
class Api:
    """The responses of the daemon whose state is in ``state_dir``, below one path."""

    state_dir: Path
    room: str

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """Send a request; an error status is a response too."""
        question = f"/api/v1/{self.room}/{path}?{urlencode(parameters)}"
        found: dict[str, Any] = json.loads(asked(told_port(self.state_dir), question).text)
        return found

    def until(
        self, path: str, condition: Callable[[dict[str, Any]], object], **parameters: str
    ) -> dict[str, Any]:
        """Send requests until ``condition`` holds for the response, even while the daemon is starting."""
        return first_that(
            condition,
            lambda: self.get(path, **parameters),
            OSError,
            ValueError,
            KeyError,
            deadline_s=START_S,
        )
