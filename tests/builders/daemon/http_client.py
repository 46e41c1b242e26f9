"""HTTP servers of a daemon, in this process or another, and what they answer."""

from __future__ import annotations

import http.client
import json
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from daemon.http.server import HttpServer
from tests.builders.daemon.loops import first_that


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from starlette.applications import Starlette


HOST = "127.0.0.1"
TIMEOUT_S = 10.0
START_S = 300.0
"""A daemon asks its source for every database before it answers, and a source that many tests share has hundreds."""


@contextmanager
def served(app: Starlette, state_dir: Path | None = None) -> Iterator[HttpServer]:
    """Serve ``app`` at a free port, which is told in ``state_dir``."""
    with closing(HttpServer(app, HOST, 0)) as server:
        server.start(state_dir)
        yield server


@dataclass(frozen=True)
class Answer:
    """``headers`` by their names in small letters."""

    status: int
    text: str
    headers: dict[str, str]


def asked(port: int, path: str, method: str = "GET") -> Answer:
    """Ask without any of the product's own client."""
    with closing(http.client.HTTPConnection(HOST, port, timeout=TIMEOUT_S)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, answer.read().decode(), headers)


def told_port(state_dir: Path) -> int:
    """The port of the daemon whose state is in ``state_dir``."""
    port: int = json.loads((state_dir / "http.json").read_text())["port"]
    return port


@dataclass(frozen=True)
class Api:
    """The answers of the daemon whose state is in ``state_dir``, below one path."""

    state_dir: Path
    room: str

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """Ask; a refusal is an answer too."""
        question = f"/api/v1/{self.room}/{path}?{urlencode(parameters)}"
        found: dict[str, Any] = json.loads(asked(told_port(self.state_dir), question).text)
        return found

    def until(
        self, path: str, condition: Callable[[dict[str, Any]], object], **parameters: str
    ) -> dict[str, Any]:
        """Ask until ``condition`` holds for the answer, also while the daemon is only starting."""
        return first_that(
            condition,
            lambda: self.get(path, **parameters),
            OSError,
            ValueError,
            KeyError,
            deadline_s=START_S,
        )
