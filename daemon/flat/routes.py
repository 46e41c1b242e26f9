"""Flat tables over HTTP: ``GET /flat`` and ``/flat/TABLE`` for people, ``/api/v1/flat[/TABLE]`` as JSON.

TABLE is the name in the configuration or ``db.table``. Threads of the server's pool wait for the key log's database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response
from starlette.routing import Route

from daemon.flat.page import flat_page, flats_page, refusal_page
from daemon.http.endpoints import HEADERS, build_threaded_endpoint, status_of
from state.errors import TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from daemon.flat.tables import FlatAnswers


PATH: Final = "/api/v1/flat"
PAGE: Final = "/flat"


def flat_routes(answers: FlatAnswers) -> list[Route]:
    """Return the routes."""

    def route(path: str, answer: Callable[[str], dict[str, Any]]) -> Route:
        endpoint = build_threaded_endpoint((), (), lambda name, _: answer(name))
        return Route(path, endpoint, methods=["GET"])

    def page(path: str, text: Callable[[str], str]) -> Route:
        return Route(path, _page(text), methods=["GET"])

    return [
        route(PATH, lambda _: answers.listing()),
        route(f"{PATH}/{{name}}", answers.show),
        page(PAGE, lambda _: flats_page(answers.listing())),
        page(f"{PAGE}/{{name}}", lambda name: flat_page(answers.show(name))),
    ]


def _page(text: Callable[[str], str]) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        try:
            body, code = text(request.path_params.get("name", "").lower()), 200
        except TidelineError as error:
            body, code = refusal_page(error), status_of(error)
        return Response(body.encode(), code, {**HEADERS, "content-type": "text/html; charset=utf-8"})

    return endpoint
