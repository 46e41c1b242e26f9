"""The partition index over HTTP: read-only JSON.

``GET /api/v1/partitions?source=&prefix=&limit=`` lists the tables; for a TABLE (``db.table``):
``/api/v1/partitions/TABLE?filter=&max=&names=&dialect=&source=`` the partitions that match, or their names,
``/api/v1/partitions/TABLE/count?filter=``, ``/api/v1/partitions/TABLE/explain?filter=``,
``/api/v1/partitions/TABLE/names_ps?values=&max=`` (values in key order, as a name: ``2024-05-01//eu``, escaped as Hive does) and
``/api/v1/partitions/TABLE/by_expr?expr=&max=`` (base64 for URLs). A mistake in a filter is a 400 whose ``context.position`` tells
where, in characters from 0.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from starlette.routing import Route

from daemon.http.answering import flag, in_a_thread, number
from daemon.partitions.answers import NAMES_MAX, PARTITIONS_MAX, TABLES_MAX, FilterQuestion
from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Iterable

    from daemon.http.answering import AnswerTo, Parameters
    from daemon.partitions.answers import PartitionAnswers


PATH: Final = "/api/v1/partitions"
_FILTER: Final = frozenset({"source", "dialect"})
_LONG: Final = frozenset({"filter", "values", "expr"})


def partition_routes(answers: PartitionAnswers) -> list[Route]:
    """Return the routes."""

    def route(path: str, allowed: Iterable[str], long: str | None, answer: AnswerTo) -> Route:
        endpoint = in_a_thread(allowed, _LONG.intersection({long}), answer)
        return Route(path, endpoint, methods=["GET"])

    table = f"{PATH}/{{name}}"
    return [
        route(PATH, {"source", "prefix", "limit"}, None, lambda _, given: _listing(answers, given)),
        route(
            table,
            {*_FILTER, "max", "names"},
            "filter",
            lambda name, given: answers.filter(_question(name, given)),
        ),
        route(
            f"{table}/count",
            _FILTER,
            "filter",
            lambda name, given: answers.count(_question(name, given)),
        ),
        route(
            f"{table}/explain",
            _FILTER,
            "filter",
            lambda name, given: answers.explain(_question(name, given)),
        ),
        route(
            f"{table}/names_ps",
            {"source", "max"},
            "values",
            lambda name, given: _names_ps(answers, name, given),
        ),
        route(
            f"{table}/by_expr", {"source", "max"}, "expr", lambda name, given: _by_expr(answers, name, given)
        ),
    ]


def _listing(answers: PartitionAnswers, given: Parameters) -> dict[str, Any]:
    limit = number(given, "limit", TABLES_MAX)
    return answers.listing(
        source=given.get("source"),
        prefix=given.get("prefix", "").lower(),
        limit=TABLES_MAX if limit is None else limit,
    )


def _question(name: str, given: Parameters) -> FilterQuestion:
    names = flag(given, "names")
    return FilterQuestion(
        table=name,
        filter=given.get("filter", ""),
        most=number(given, "max", NAMES_MAX if names else PARTITIONS_MAX),
        names=names,
        dialect=given.get("dialect", "hive4"),
        source=given.get("source"),
    )


def _names_ps(answers: PartitionAnswers, name: str, given: Parameters) -> dict[str, Any]:
    values = [unquote(value) for value in given.get("values", "").split("/")]
    return answers.names_ps(name, values, number(given, "max", NAMES_MAX), source=given.get("source"))


def _by_expr(answers: PartitionAnswers, name: str, given: Parameters) -> dict[str, Any]:
    text = given.get("expr", "")
    try:
        expression = b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise BadInput("the expression is no base64", parameter="expr") from error
    return answers.by_expr(name, expression, number(given, "max", PARTITIONS_MAX), source=given.get("source"))
