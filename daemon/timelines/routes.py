"""Timelines over HTTP: read-only JSON, made from what the catalog's thread has left in memory.

``GET /api/v1/timelines?source=&prefix=``, ``/api/v1/timelines/NAME``, ``/api/v1/timelines/NAME/latest?column=`` and
``/api/v1/timelines/NAME/cover?from=&to=&column=&periods=&strict=&min_count=&where=&alias=``; NAME is a table (``db.table``), or
a fact for the last two. A question that cannot be answered is ``{"code", "message", "hint", "context"}`` with 400 or 404.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.routing import Route

from daemon.http.answering import at_once, flag, number
from daemon.timelines.answers import TABLES_MAX, CoverQuestion, TimelineAnswers
from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Iterable

    from daemon.http.answering import AnswerTo, Parameters


PATH: Final = "/api/v1/timelines"
_LISTING: Final = frozenset({"source", "prefix", "limit"})
_SHOW: Final = frozenset({"source"})
_LATEST: Final = frozenset({"source", "column"})
_COVER: Final = frozenset(
    {"source", "from", "to", "column", "periods", "strict", "min_count", "where", "alias"}
)


def timeline_routes(answers: TimelineAnswers) -> list[Route]:
    """Return the routes."""

    def route(path: str, allowed: Iterable[str], answer: AnswerTo) -> Route:
        return Route(path, at_once(allowed, answer), methods=["GET"])

    return [
        route(PATH, _LISTING, lambda _, given: _listing(answers, given)),
        route(f"{PATH}/{{name}}", _SHOW, lambda name, given: answers.show(name, **given)),
        route(f"{PATH}/{{name}}/latest", _LATEST, lambda name, given: answers.latest(name, **given)),
        route(f"{PATH}/{{name}}/cover", _COVER, lambda name, given: answers.cover(_question(name, given))),
    ]


def _listing(answers: TimelineAnswers, given: Parameters) -> dict[str, Any]:
    limit = number(given, "limit", TABLES_MAX) or 0
    return answers.listing(
        source=given.get("source"),
        prefix=given.get("prefix", "").lower(),
        limit=limit if "limit" in given else TABLES_MAX,
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
        strict=flag(given, "strict"),
        min_count=flag(given, "min_count"),
        where=given.get("where"),
        alias=given.get("alias", ""),
    )
