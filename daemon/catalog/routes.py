"""Routes of queries about catalogs: read-only JSON.

A failed query is answered with ``{"code", "message", "hint", "context"}`` and 400, 404, or 503 where it may be repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from starlette.routing import Route

from daemon.catalog.queries import Query
from daemon.http.endpoints import build_async_endpoint, build_threaded_endpoint


if TYPE_CHECKING:
    from collections.abc import Iterable

    from daemon.catalog.queries import Answer, Answers
    from daemon.http.endpoints import Parameters


Q = TypeVar("Q", bound=Query)


def query_routes(queries: Iterable[type[Q]], answers: Answers[Q], *, reads_store: bool) -> list[Route]:
    """Return a route for each query; ``reads_store`` where answering may wait, so that a thread is needed."""
    return [_route(query, answers, reads_store=reads_store) for query in queries]


def _route(query: type[Q], answers: Answers[Q], *, reads_store: bool) -> Route:
    def answer(name: str, given: Parameters) -> Answer:
        return answers.answer(query.parse(name, given))

    parameters = query.parameters()
    long = [name for name, (_, parameter) in parameters.items() if parameter.is_long]
    endpoint = (
        build_threaded_endpoint(parameters, long, answer)
        if reads_store
        else build_async_endpoint(parameters, answer)
    )
    return Route(query.path, endpoint, methods=["GET"])
