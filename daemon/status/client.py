"""Sends requests to a running daemon. If none runs, the command reads the last status and serves requests
itself.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from daemon.process.inbox import Request, error_from_json, requests_directory, send_request
from daemon.state_directory.directory import STATUS_FILE, state_lock
from daemon.status.address import TIMEOUT_S, DaemonAddress, running_daemon
from daemon.status.model import DaemonStatus, StatusSection
from state.errors import BadInput, ConfigError, LimitExceeded, MalformedEvent, NotFound, Transient


ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
WATCH_TIMEOUT_S: Final = 60.0
"""The daemon sends something every 15 seconds."""
_PATH: Final = "/api/v1/status"


def load_status(state_dir: Path, sections: Sequence[StatusSection[Any]]) -> DaemonStatus:
    """Return the running daemon's status. If none runs, return the last status, with the state ``stopped``.

    Raises NotFound if no daemon has run with this state directory.
    """
    address = running_daemon(state_dir)
    if address is not None:
        try:
            return fetch_status(address, sections)
        except (Transient, BadInput, ConfigError):
            # A killed daemon leaves its address file behind. Its last status is still the best one.
            pass
    last_status = _read(state_dir / STATUS_FILE)
    if last_status is None:
        raise NotFound(
            "no daemon is running, and no earlier one has left a status",
            hint="Start one with 'tideline run', or name the address of another with --url.",
            state_dir=str(state_dir),
        )
    return replace(DaemonStatus.from_json(last_status, sections), state="stopped")


def find_daemon(state_dir: Path) -> DaemonAddress | None:
    """Return the address of the daemon with this state directory; None if no daemon answers."""
    address = running_daemon(state_dir)
    if address is None:
        return None
    try:
        fetch(address, "/livez")
    except Transient:
        return None
    return address


def serve_request(
    state_dir: Path,
    loop: tuple[str, str],
    request: Request,
    *,
    timeout_s: float,
    absent: NotFound,
    here: Callable[[], Request],
) -> Request:
    """Let the running daemon serve a request or, if none runs, ``here``, with the state directory locked.

    ``loop`` is the kind and name of the loop that serves it. Raises ``absent`` if the running daemon has no
    such loop, the error in the answer, and Transient if the daemon does not answer in time.
    """
    if find_daemon(state_dir) is None:
        with state_lock(state_dir):
            return here()
    return send_request(requests_directory(state_dir, *loop), request, timeout_s, absent)


def fetch_status(daemon: DaemonAddress, sections: Sequence[StatusSection[Any]]) -> DaemonStatus:
    """Return the status of a daemon.

    Raises Transient if it does not answer, BadInput for an invalid answer, and the error in its answer.
    """
    code, body = fetch(daemon, _PATH)
    if code in {401, 403, 503}:
        raise error_from_json(_parse_object(daemon.url, body))
    return _parse(daemon.url, code, body, sections)


def watch_status(
    daemon: DaemonAddress, sections: Sequence[StatusSection[Any]]
) -> Generator[DaemonStatus, None, None]:
    """Yield the status of a daemon now and after each change, until the daemon ends the stream.

    Raises the same errors as ``fetch_status``.
    """
    with _answer_to(daemon, f"{_PATH}?watch=", None, WATCH_TIMEOUT_S) as answer:
        if answer.status != 200:
            raise error_from_json(_parse_object(daemon.url, answer.read(ANSWER_BYTES_MAX)))
        while line := answer.readline(ANSWER_BYTES_MAX):
            if line.startswith(b"data: "):
                yield _parse(daemon.url, 200, line.removeprefix(b"data: "), sections)


def fetch(
    daemon: DaemonAddress, path: str, *, body: bytes | None = None, timeout_s: float = TIMEOUT_S
) -> tuple[int, bytes]:
    """Return the status code and the body of the daemon's answer to GET ``path``, or to POST with a body.

    Raises Transient, LimitExceeded, ConfigError.
    """
    with _answer_to(daemon, path, body, timeout_s) as answer:
        content = answer.read(ANSWER_BYTES_MAX + 1)
    if len(content) > ANSWER_BYTES_MAX:
        raise LimitExceeded("the daemon's answer is too long", url=daemon.url)
    return answer.status, content


@contextmanager
def _answer_to(
    daemon: DaemonAddress, path: str, body: bytes | None, timeout_s: float
) -> Iterator[http.client.HTTPResponse]:
    connection = None
    try:
        connection = daemon.connect(timeout_s)
        connection.request("GET" if body is None else "POST", path, body, daemon.headers())
        yield connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        raise Transient(
            "the daemon does not answer",
            hint="Check that it is running, and check http.host and http.port.",
            url=daemon.url,
            reason=str(error),
        ) from error
    finally:
        if connection is not None:
            connection.close()


def fetch_json(
    daemon: DaemonAddress,
    path: str,
    parameters: Mapping[str, str | None],
    *,
    timeout_s: float = TIMEOUT_S,
) -> dict[str, Any]:
    """Return the daemon's answer to a query; omits parameters without a value.

    Raises the daemon's error, Transient, MalformedEvent.
    """
    query = urlencode({name: value for name, value in parameters.items() if value})
    return _answer(daemon, *fetch(daemon, f"{path}{'?' if query else ''}{query}", timeout_s=timeout_s))


def send_action(daemon: DaemonAddress, path: str, request: Request, *, timeout_s: float) -> dict[str, Any]:
    """Send the action ``do`` of a request to the object with this path, and return the daemon's answer.

    It needs a token with the role *operate*. Raises the daemon's error, Transient, MalformedEvent.
    """
    given = {name: value for name, value in request.items() if name != "do"}
    body = orjson.dumps(given)
    return _answer(daemon, *fetch(daemon, f"{path}/{request['do']}", body=body, timeout_s=timeout_s))


def _answer(daemon: DaemonAddress, code: int, body: bytes) -> dict[str, Any]:
    answer = _parse_object(daemon.url, body)
    if code not in {200, 202}:
        raise error_from_json(answer)
    return answer


def _parse_object(url: str, body: bytes) -> dict[str, Any]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise MalformedEvent(
            "the daemon's answer is not a JSON object",
            hint="Check that the address is that of a Tideline daemon with a catalog.",
            url=url,
        )
    return answer


def _parse(url: str, code: int, body: bytes, sections: Sequence[StatusSection[Any]]) -> DaemonStatus:
    try:
        return DaemonStatus.from_json(orjson.loads(body) if code == 200 else None, sections)
    except orjson.JSONDecodeError as error:
        raise MalformedEvent(
            "the daemon's answer is not JSON",
            hint="Check that the address belongs to a Tideline daemon.",
            url=url,
        ) from error


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return content if isinstance(content, dict) else None
