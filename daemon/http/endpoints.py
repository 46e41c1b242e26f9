"""HTTP endpoints for queries: parameters with limits, answers and errors as JSON.

The answer to a failed query is ``{"code", "message", "hint", "context"}`` with 400, 401, 403, 404, or 503 if
it may be repeated. Answers are made in the threads of the server (``daemon.http.answering``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import orjson
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from daemon.http.answering import RETRY_AFTER_S, HeldResponse, Lane
from daemon.http.tokens import Role
from daemon.process.inbox import error_to_json
from state.errors import BadInput, Forbidden, NotFound, Refused, TidelineError, Unauthenticated


if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request

    from daemon.http.answering import Answering


PARAMETER_CHARACTERS_MAX: Final = 512
LONG_PARAMETER_CHARACTERS_MAX: Final = 8_000
"""Limit of long parameters. The head of a request may have 16 KiB."""
JSON: Final = "application/json"
HTML: Final = "text/html; charset=utf-8"
_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
    "x-content-type-options": "nosniff",
}
"""Headers of every response."""

Parameters = dict[str, str]
Answer = dict[str, Any]
AnswerTo = Callable[[str, Parameters], Answer]
"""Answers a query about a name, with parameters."""
Made = tuple[bytes, str, int]
"""Content, its type, and the status of a response."""


def probe_response(reasons: Sequence[str] = ()) -> Response:
    """Return the answer of a probe, which fails for ``reasons``."""
    return build_response(*probe_answer(reasons))


def probe_answer(reasons: Sequence[str]) -> Made:
    """Return the same before it is a response."""
    content = orjson.dumps({"ok": not reasons, "reasons": list(reasons)})
    return content, JSON, 503 if reasons else 200


async def metrics_response(request: Request, registry: CollectorRegistry) -> Response:
    """Return the metrics in the format that the request accepts."""
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return await made_response(request, lambda: (encode(registry), content_type, 200), Lane.STATUS)


def problem_response(error: TidelineError) -> Response:
    """Return the answer to a request that fails with ``error``."""
    response = build_response(orjson.dumps(error_to_json(error), default=str), JSON, status_of(error))
    if response.status_code == 401:
        response.headers.append("www-authenticate", "Bearer")
        response.headers.append("www-authenticate", 'Basic realm="Tideline: the password is a token"')
    if response.status_code == 503:
        response.headers["retry-after"] = str(RETRY_AFTER_S)
    return response


def build_response(content: bytes, content_type: str, code: int = 200) -> Response:
    """Return a response with the headers of every response."""
    return Response(content, code, {**_HEADERS, "content-type": content_type})


async def made_response(request: Request, make: Callable[[], Made], lane: Lane = Lane.STORE) -> Response:
    """Return the response that ``make`` makes in a thread of the server, within the server's budget."""
    answering: Answering = request.state.answering
    try:
        content, content_type, code = await answering.run(make, lane)
        release = answering.hold(len(content), lane)
    except TidelineError as error:
        return problem_response(error)
    return HeldResponse(content, code, {**_HEADERS, "content-type": content_type}, release)


def build_endpoint(
    allowed: Iterable[str],
    answer: AnswerTo,
    *,
    lane: Lane = Lane.STORE,
    long: Iterable[str] = (),
    for_viewers: Callable[[Answer], Answer] = lambda answer: answer,
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a query.

    ``allowed`` are its parameters; those in ``long`` may be longer. ``for_viewers`` leaves out what only
    operators may see.
    """
    names, long_names = frozenset(allowed).union(long), frozenset(long)

    async def endpoint(request: Request) -> Response:
        def make() -> Made:
            parameters = _parameters(request, names, long_names)
            found = answer(request.path_params.get("name", "").lower(), parameters)
            if not may_operate(request):
                found = for_viewers(found)
            return orjson.dumps(found, default=str), JSON, 200

        return await made_response(request, make, lane)

    return endpoint


def _parameters(request: Request, names: frozenset[str], long_names: frozenset[str]) -> Parameters:
    parameters = dict(request.query_params)
    for name, value in parameters.items():
        if name not in names:
            raise BadInput("unknown parameter", parameter=name[:100], known=sorted(names))
        limit = LONG_PARAMETER_CHARACTERS_MAX if name in long_names else PARAMETER_CHARACTERS_MAX
        if len(value) > limit:
            raise BadInput("a parameter is too long", parameter=name, limit=limit)
    return parameters


def may_operate(request: Request) -> bool:
    """Whether the client of a request has the role *operate*. Without a gate, no client has it."""
    client = getattr(request.state, "client", None)
    return client is not None and client.role >= Role.OPERATE


def status_of(error: TidelineError) -> int:
    """Return the HTTP status of an error."""
    match error:
        case Unauthenticated():
            return 401
        case Forbidden():
            return 403
        case NotFound():
            return 404
        case BadInput() | Refused():
            return 400
    return 503
