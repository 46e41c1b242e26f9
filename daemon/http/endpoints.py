"""HTTP endpoints for queries: parameters with limits, answers and errors as JSON.

The answer to a failed query is ``{"code", "message", "hint", "context"}`` with 400, 404, or 503 if it may be
repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import orjson
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from daemon.process.inbox import error_to_json
from state.errors import BadInput, NotFound, Refused, TidelineError


if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request


PARAMETER_CHARACTERS_MAX: Final = 512
LONG_PARAMETER_CHARACTERS_MAX: Final = 8_000
"""Limit of long parameters. The head of a request may have 16 KiB."""
_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
    "x-content-type-options": "nosniff",
}
"""Headers of every response."""

Parameters = dict[str, str]
AnswerTo = Callable[[str, Parameters], dict[str, Any]]
"""Answers a query about a name, with parameters."""


def probe_response(reasons: Sequence[str] = ()) -> Response:
    """Return the answer of a probe, which fails for ``reasons``."""
    content = orjson.dumps({"ok": not reasons, "reasons": list(reasons)})
    return build_response(content, "application/json", 503 if reasons else 200)


def metrics_response(request: Request, registry: CollectorRegistry) -> Response:
    """Return the metrics in the format that the request accepts."""
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return build_response(encode(registry), content_type)


def build_response(content: bytes, content_type: str, code: int = 200) -> Response:
    """Return a response with the headers of every response."""
    return Response(content, code, {**_HEADERS, "content-type": content_type})


def build_async_endpoint(
    allowed: Iterable[str], answer: AnswerTo
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint for answers from memory. They never wait, so they need no thread."""
    names = frozenset(allowed)

    # RUF029: answered from memory, so it never waits
    async def endpoint(request: Request) -> Response:  # noqa: RUF029
        return _response(request, names, frozenset(), answer)

    return endpoint


def build_threaded_endpoint(
    allowed: Iterable[str], long: Iterable[str], answer: AnswerTo
) -> Callable[[Request], Response]:
    """Return an endpoint for answers that read a store, in a thread of the server's pool.

    ``long`` are parameters that may be longer.
    """
    names, long_names = frozenset(allowed).union(long), frozenset(long)

    def endpoint(request: Request) -> Response:
        return _response(request, names, long_names, answer)

    return endpoint


def _response(
    request: Request, names: frozenset[str], long_names: frozenset[str], answer: AnswerTo
) -> Response:
    try:
        parameters = _parameters(request, names, long_names)
        body, code = answer(request.path_params.get("name", "").lower(), parameters), 200
    except TidelineError as error:
        body, code = error_to_json(error), status_of(error)
    return build_response(orjson.dumps(body, default=str), "application/json", code)


def _parameters(request: Request, names: frozenset[str], long_names: frozenset[str]) -> Parameters:
    parameters = dict(request.query_params)
    for name, value in parameters.items():
        if name not in names:
            raise BadInput("unknown parameter", parameter=name[:100], known=sorted(names))
        limit = LONG_PARAMETER_CHARACTERS_MAX if name in long_names else PARAMETER_CHARACTERS_MAX
        if len(value) > limit:
            raise BadInput("a parameter is too long", parameter=name, limit=limit)
    return parameters


def status_of(error: TidelineError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, NotFound):
        return 404
    return 400 if isinstance(error, BadInput | Refused) else 503
