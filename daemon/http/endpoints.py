"""HTTP endpoints for queries: parameters with limits, answers and errors as JSON.

A failed query gets a problem as its answer (``daemon.http.problems``). The threads of the server make the
answers (``daemon.http.transport.answering``). Each has an ETag, so that a client that has it already gets
304.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from daemon.http.parameters import CHARACTERS_MAX, P, read_parameters
from daemon.http.problems import PROBLEM, problem_of, status_of
from daemon.http.tokens import ANONYMOUS, Role
from daemon.http.transport.answering import RETRY_AFTER_S, Answering, HeldResponse, Lane
from daemon.http.transport.limits import group_of
from state.errors import BadInput, Forbidden, NotFound, TidelineError, Unauthenticated


JSON: Final = "application/json"
HTML: Final = "text/html; charset=utf-8"
HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; script-src 'self'; img-src 'self'; "
    "style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}
"""Headers of every response."""

Answer = dict[str, Any]


class Made(NamedTuple):
    """A response before it is sent."""

    content: bytes
    content_type: str
    code: int = 200
    etag: str = ""
    """Identifies the content for clients that may have it already."""


def make_json(answer: Mapping[str, Any], compared: Mapping[str, Any] | None = None) -> Made:
    """Return an answer; ``compared`` is the part of it whose change makes it another one."""
    content = orjson.dumps(answer, default=str)
    identity = content if compared is None else orjson.dumps(compared, default=str)
    return Made(content, JSON, etag=f'W/"{hashlib.sha256(identity).hexdigest()[:32]}"')


def probe_response(reasons: Sequence[str] = ()) -> Response:
    """Return the answer of a probe, which fails for ``reasons``."""
    made = probe_answer(reasons)
    return build_response(made.content, made.content_type, made.code)


def probe_answer(reasons: Sequence[str]) -> Made:
    """Return the same before it is a response."""
    content = orjson.dumps({"ok": not reasons, "reasons": list(reasons)})
    return Made(content, JSON, 503 if reasons else 200)


def make_metrics(registry: CollectorRegistry, accept: str) -> Made:
    """Return the metrics in a format that a client accepts by this header."""
    encode, content_type = _choose_encoder(accept)
    return Made(encode(registry), content_type)


def _choose_encoder(accept: str) -> tuple[Callable[[CollectorRegistry], bytes], str]:
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is not a number
        return choose_encoder("")


async def metrics_response(request: Request, make: Callable[[str], Made]) -> Response:
    """Return the metrics, which ``make`` makes in the format that the request accepts; simultaneous requests
    share them.
    """
    accept = request.headers.get("accept", "")
    _, content_type = _choose_encoder(accept)
    answering: Answering = request.state.answering

    async def run() -> Made:
        return await answering.run(lambda: make(accept), Lane.STATUS, address_of(request))

    return await _respond(request, Lane.STATUS, answering.shared.get(content_type, run))


def problem_response(error: TidelineError) -> Response:
    """Return the answer to a request that fails with ``error``."""
    response = build_response(orjson.dumps(problem_of(error), default=str), PROBLEM, status_of(error))
    if response.status_code == 401:
        response.headers.append("www-authenticate", "Bearer")
        response.headers.append("www-authenticate", 'Basic realm="Tideline: the password is a token"')
    if response.status_code == 503:
        response.headers["retry-after"] = str(RETRY_AFTER_S)
    return response


def build_response(content: bytes, content_type: str, code: int = 200) -> Response:
    """Return a response with the headers of every response."""
    return Response(content, code, {**HEADERS, "content-type": content_type})


async def made_response(request: Request, make: Callable[[], Made], lane: Lane = Lane.STORE) -> Response:
    """Return the response that ``make`` makes in a thread of the server, within the server's budget."""
    answering: Answering = request.state.answering
    return await _respond(request, lane, answering.run(make, lane, address_of(request)))


async def _respond(request: Request, lane: Lane, answer: Awaitable[Made]) -> Response:
    answering: Answering = request.state.answering
    try:
        made = await answer
        headers = {**HEADERS, "content-type": made.content_type}
        if made.etag:
            headers |= {"cache-control": "private, no-cache", "etag": made.etag}
            if made.etag in _known_etags(request):
                return Response(b"", 304, headers)
        release = answering.hold(len(made.content), lane)
    except TidelineError as error:
        return problem_response(error)
    return HeldResponse(made.content, made.code, headers, release)


def address_of(request: Request) -> str:
    """Return the key of one client in the queue of requests."""
    return "" if request.client is None else group_of(request.client.host)


async def answer_unrouted(request: Request, error: Exception) -> Response:
    """Return the problem of a path or a method that no route has."""
    assert isinstance(error, HTTPException), "registered for its statuses only"
    path = request.url.path[:CHARACTERS_MAX]
    if error.status_code == 404:
        hint = "GET /api/v1/openapi.json lists the routes."
        return problem_response(NotFound("there is no such page", path=path, hint=hint))
    refused = BadInput("the page does not have this method", path=path, method=request.method)
    content = orjson.dumps(problem_of(refused) | {"status": error.status_code})
    response = build_response(content, PROBLEM, error.status_code)
    response.headers.update(error.headers or {})
    return response


UNROUTED: Final = {404: answer_unrouted, 405: answer_unrouted}
"""Handlers for an application: without them, it answers as text."""


def _known_etags(request: Request) -> list[str]:
    return [each.strip() for each in request.headers.get("if-none-match", "").split(",")]


def build_endpoint(
    parameters: type[P],
    answer: Callable[[str, P], Answer],
    *,
    lane: Lane = Lane.STORE,
    operators_only: bool = False,
    for_viewers: Callable[[Answer], Answer] = lambda answer: answer,
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a query.

    ``answer`` gets the name in the path and the parameters. ``for_viewers`` leaves out facts for operators
    only.
    """

    async def endpoint(request: Request) -> Response:
        def make() -> Made:
            if operators_only:
                require_operator(request)
            path = {each: value.lower() for each, value in request.path_params.items()}
            given = read_parameters(parameters, request.query_params, **path)
            found = answer(path.get("name", ""), given)
            if not may_operate(request):
                found = for_viewers(found)
            return make_json(found)

        return await made_response(request, make, lane)

    return endpoint


_OPERATOR_HINT: Final = (
    "Give the command --token-file, or the request 'Authorization: Bearer TOKEN', with a token of the role "
    "'operate' (http.tokens)."
)


def require_operator(request: Request) -> None:
    """Raise Forbidden, or Unauthenticated without a token, unless the client has the role *operate*.

    It counts both.
    """
    if not may_operate(request):
        if getattr(request.state, "client", ANONYMOUS) == ANONYMOUS:
            request.state.refused(Unauthenticated.code)
            raise Unauthenticated("the request has no token", hint=_OPERATOR_HINT)
        request.state.refused(Forbidden.code)
        raise Forbidden(
            "the role of the client does not allow this",
            hint=_OPERATOR_HINT,
            role="view",
            needed="operate",
        )


def may_operate(request: Request) -> bool:
    """Whether the client of a request has the role *operate*. Without a gate, no client has it."""
    client = getattr(request.state, "client", None)
    return client is not None and client.role >= Role.OPERATE
