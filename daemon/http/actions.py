"""Operations that change something: only for the role *operate*, and all with a record.

An action works like a command: the loop that it concerns serves it between two batches. It is answered when
done, or with 202 when long work has begun. The record is in the log, and the last ones are kept for
``/api/v1/actions``; refused and failed ones are recorded too. These are in one small file, written with every
action, and survive restarts.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import structlog
from pydantic import ConfigDict, TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from daemon.http.endpoints import Made, made_response, make_json, problem_response, require_operator
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.http.tokens import ANONYMOUS
from daemon.http.transport.answering import Lane
from daemon.http.transport.limits import BODY_BYTES_MAX
from daemon.process.redaction import redactor
from daemon.state_directory.record_file import RecordFile
from state.errors import BadInput, LimitExceeded, TidelineError


log = structlog.get_logger(__name__)
KEPT: Final = 200
"""Actions listed."""
FILE: Final = "actions.json"
STRICT: Final = ConfigDict(extra="forbid", strict=True)
"""The body of an action has no unknown members, and 0 is not false."""
B = TypeVar("B")


@dataclass(frozen=True)
class NoParameters:
    """An empty object."""

    __pydantic_config__ = STRICT


@dataclass(frozen=True, slots=True)
class Recorded:
    """One action: its user, its object and its result."""

    at_s: float
    """Unix time at which it ended."""
    client: str
    action: str
    object: str
    code: str | None
    """The code of the error; null if done."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """The object that the request named, such as a table."""
    problem: str | None = None
    """The message of the error."""


@dataclass(frozen=True, slots=True)
class ActionList:
    """The last actions, the newest first."""

    actions: list[Recorded]


class Audit:
    """The record of actions, and its file in the state directory; thread-safe."""

    def __init__(self, directory: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        """Without a ``directory`` there is no file."""
        path = None if directory is None else directory / FILE
        self._file = RecordFile(path, Recorded, "the record of actions")
        self._clock = clock
        self._lock = threading.Lock()
        self._last: deque[Recorded] = deque(maxlen=KEPT)

    def load(self) -> None:
        """Read the file; a missing or unreadable one is an empty record."""
        self._last.extend(self._file.read()[:KEPT])

    def record(
        self,
        client: str,
        action: str,
        name: str,
        error: TidelineError | None,
        parameters: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Record an action that has ended."""
        code, problem = (None, None) if error is None else (error.code, error.message)
        given = redactor().clean(dict(parameters))
        recorded = redactor().texts(Recorded(self._clock(), client, action, name, code, given, problem))
        with self._lock:
            self._last.appendleft(recorded)
            self._file.write(self._last)
        log.info(
            "action", client=client, action=action, object=name, parameters=recorded.parameters, code=code
        )

    def last(self) -> Sequence[Recorded]:
        """Return the last actions, the newest first."""
        with self._lock:
            return tuple(self._last)

    def answer(self) -> dict[str, Any]:
        """Return the last actions (``ActionList``)."""
        return {"actions": [asdict(each) for each in self.last()]}


def audit_route(audit: Audit) -> ApiRoute:
    """Return the route that lists the last actions."""

    async def endpoint(request: Request) -> Response:
        return await made_response(request, lambda: make_json(audit.answer()), Lane.STATUS)

    operation = Operation(
        path=f"{BASE}/actions",
        tag="Status",
        summary="The last actions, with the client and the outcome of each.",
        answer=TypeAdapter(ActionList),
    )
    return ApiRoute(operation, endpoint)


def action_route(
    operation: Operation, body: type[B], do: Callable[[str, B], dict[str, Any]], audit: Audit
) -> ApiRoute:
    """Return the route of an action.

    ``do`` gets the name from the path and the body, may wait, and returns the answer. Without a name in the
    path, it is the part before the action: ``copies`` of ``copies/limit``.
    """
    return signed_action_route(operation, body, lambda name, given, _client: do(name, given), audit)


def signed_action_route(
    operation: Operation, body: type[B], do: Callable[[str, B, str], dict[str, Any]], audit: Audit
) -> ApiRoute:
    """Return the route of an action that records its client; ``do`` gets the client's name, too."""
    adapter = TypeAdapter(body)
    base, _, action = operation.path.rpartition("/")
    whole = base.rpartition("/")[2]

    async def endpoint(request: Request) -> Response:
        client = getattr(request.state, "client", ANONYMOUS).name
        name = request.path_params.get("name", whole).lower()

        def make() -> Made:
            try:
                answer = do(name, given, client)
            except TidelineError as error:
                audit.record(client, action, name, error, parameters)
                raise
            audit.record(client, action, name, None, parameters)
            return make_json(answer)._replace(code=operation.code)

        try:
            require_operator(request)
            given = _parse(adapter, await _read(request))
            # Without defaults: only what the request names
            parameters = adapter.dump_python(given, mode="json", exclude_defaults=True)
        except TidelineError as error:
            audit.record(client, action, name, error)
            return problem_response(error)
        return await made_response(request, make, Lane.ACTION)

    return ApiRoute(operation, endpoint)


async def _read(request: Request) -> bytes:
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                raise LimitExceeded("the body of the request is too long", limit_bytes=BODY_BYTES_MAX)
    except ClientDisconnect:
        raise BadInput("the client disconnected before the end of the body") from None
    return body


def _parse(adapter: TypeAdapter[B], body: bytes) -> B:
    try:
        return adapter.validate_json(body or b"{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise BadInput("the body of the request cannot be used", place=place, reason=first["msg"]) from None
