"""The routes of the site: its own pages, those of the capabilities, and static files."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from daemon.http.actions import Recorded
from daemon.http.endpoints import problem_response
from daemon.http.openapi import DOCUMENT
from daemon.http.operations import ApiRoute
from daemon.http.tokens import ANONYMOUS
from daemon.http.transport.answering import Lane
from daemon.site import runbooks
from daemon.site.assets import static_route
from daemon.site.lists import ListParameters, list_rows
from daemon.site.overview import overview_values
from daemon.site.pages import Asked, PageRoute
from daemon.status.history import HistoryPoint
from daemon.status.model import DaemonStatus, StatusSection
from state.errors import Unauthenticated


LOGIN: Final = "/login"
SHOWN_MAX: Final = 5
"""Actions on the overview."""


def site_routes(
    status: Callable[[], DaemonStatus],
    sections: Sequence[StatusSection[Any]],
    routes: Sequence[BaseRoute],
    history: Callable[[], Sequence[HistoryPoint]] = tuple,
    actions: Callable[[], Sequence[Recorded]] = tuple,
) -> list[BaseRoute]:
    """Return the pages of the site and ``routes``, in the order of the navigation.

    ``history`` returns the last day, for the sparklines. ``actions`` returns the last actions, the newest
    first.
    """
    operations = [route.operation for route in routes if isinstance(route, ApiRoute)]

    def overview(_asked: Asked) -> dict[str, Any]:
        return overview_values(status(), sections, history(), actions()[:SHOWN_MAX])

    def recorded(asked: Asked) -> dict[str, Any]:
        return {"listed": list_rows(asked, actions(), describe_action), "now_s": time.time()}

    def api(_asked: Asked) -> dict[str, Any]:
        return {"operations": operations, "document": DOCUMENT}

    return [
        PageRoute("/", "overview.html", overview, entry="Overview", lane=Lane.STATUS),
        *routes,
        PageRoute(
            "/actions", "actions.html", recorded, entry="Actions", parameters=ListParameters, lane=Lane.STATUS
        ),
        PageRoute("/api", "api.html", api, entry="API", lane=Lane.MEMORY),
        PageRoute(runbooks.PATH, "docs.html", runbooks.list_values, entry="Documentation", lane=Lane.MEMORY),
        PageRoute(f"{runbooks.PATH}/{{name:path}}", "doc.html", runbooks.page_values, lane=Lane.MEMORY),
        Route(LOGIN, _login, methods=["GET"]),
        static_route(),
    ]


def describe_action(action: Recorded) -> str:
    """Return the text of an action in which the filter of the list searches."""
    return f"{action.client} {action.action} {action.object} {action.parameters} {action.code or 'accepted'}"


async def _login(request: Request) -> Response:
    """Request a login, which the browser then sends with every request to this site."""
    if getattr(request.state, "client", ANONYMOUS) is ANONYMOUS:
        return problem_response(Unauthenticated("the request has no token", hint="Give a token as password."))
    return RedirectResponse("/", 303)
