"""Timelines over HTTP: read-only JSON, made from what the catalog's thread has left in memory.

``GET /api/v1/timelines?source=&prefix=``, ``/api/v1/timelines/NAME``, ``/api/v1/timelines/NAME/latest?column=`` and
``/api/v1/timelines/NAME/cover?from=&to=&column=&periods=&strict=&min_count=&where=&alias=``; NAME is a table (``db.table``), or
a fact for the last two. A question that cannot be answered is ``{"code", "message", "hint", "context"}`` with 400 or 404.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.responses import Response
from starlette.routing import Route

from daemon.requests import failure
from daemon.timelines import TABLES_MAX, CoverQuestion, TimelineAnswers
from state.errors import BadInput, NotFound, Refused, TidelineError


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request


PATH: Final = "/api/v1/timelines"
PARAMETER_CHARACTERS_MAX: Final = 512
_LISTING: Final = frozenset({"source", "prefix", "limit"})
_SHOW: Final = frozenset({"source"})
_LATEST: Final = frozenset({"source", "column"})
_COVER: Final = frozenset(
    {"source", "from", "to", "column", "periods", "strict", "min_count", "where", "alias"}
)
Parameters = dict[str, str]


def timeline_routes(answers: TimelineAnswers, headers: Mapping[str, str]) -> list[Route]:
    """Return the routes; ``headers`` go with every answer."""

    def route(
        path: str, allowed: frozenset[str], answer: Callable[[str, Parameters], dict[str, Any]]
    ) -> Route:
        return Route(path, _endpoint(allowed, answer, headers), methods=["GET"])

    return [
        route(PATH, _LISTING, lambda _, given: _listing(answers, given)),
        route(f"{PATH}/{{name}}", _SHOW, lambda name, given: answers.show(name, **given)),
        route(f"{PATH}/{{name}}/latest", _LATEST, lambda name, given: answers.latest(name, **given)),
        route(f"{PATH}/{{name}}/cover", _COVER, lambda name, given: answers.cover(_question(name, given))),
    ]


def _endpoint(
    allowed: frozenset[str],
    answer: Callable[[str, Parameters], dict[str, Any]],
    headers: Mapping[str, str],
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:  # noqa: RUF029 - answered from memory, so it never waits
        try:
            given = _parameters(request, allowed)
            body, code = answer(request.path_params.get("name", "").lower(), given), 200
        except TidelineError as error:
            body, code = failure(error), _status(error)
        content = orjson.dumps(body, default=str)
        return Response(content, code, {**headers, "content-type": "application/json"})

    return endpoint


def _parameters(request: Request, allowed: frozenset[str]) -> Parameters:
    given = dict(request.query_params)
    for name, value in given.items():
        if name not in allowed:
            raise BadInput("no such parameter", parameter=name[:100], known=sorted(allowed))
        if len(value) > PARAMETER_CHARACTERS_MAX:
            raise BadInput("a parameter is too long", parameter=name, limit=PARAMETER_CHARACTERS_MAX)
    return given


def _listing(answers: TimelineAnswers, given: Parameters) -> dict[str, Any]:
    limit = given.get("limit", str(TABLES_MAX))
    if not (limit.isascii() and limit.isdigit() and int(limit) <= TABLES_MAX):
        raise BadInput("no such limit", limit=limit, hint=f"A number up to {TABLES_MAX} is wanted.")
    return answers.listing(
        source=given.get("source"), prefix=given.get("prefix", "").lower(), limit=int(limit)
    )


def _question(name: str, given: Parameters) -> CoverQuestion:
    if "from" not in given or "to" not in given:
        raise BadInput("a range is wanted", hint="Give from= and to=, such as 2015-01-29-06.")
    return CoverQuestion(
        name=name,
        start=given["from"],
        end=given["to"],
        source=given.get("source"),
        column=given.get("column"),
        periods=tuple(period for period in given.get("periods", "").split(",") if period),
        strict=_flag(given, "strict"),
        min_count=_flag(given, "min_count"),
        where=given.get("where"),
        alias=given.get("alias", ""),
    )


def _flag(given: Parameters, name: str) -> bool:
    value = given.get(name, "false").lower()
    if value not in {"true", "false"}:
        raise BadInput("true or false is wanted", parameter=name, value=value)
    return value == "true"


def _status(error: TidelineError) -> int:
    if isinstance(error, NotFound):
        return 404
    return 400 if isinstance(error, BadInput | Refused) else 503
