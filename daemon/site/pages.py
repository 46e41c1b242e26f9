"""A page of the site: a path, a template, and the function that returns the template's values.

The server answers a page like any query: within the server's limits, and a failed one with the status of its
problem. Every page has the same frame: its title, the navigation with the pages of all capabilities, and the
name of the client.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.http.endpoints import HTML, Made, made_response, may_operate
from daemon.http.parameters import Parameters, refuse_unknown
from daemon.http.problems import status_of
from daemon.http.tokens import ANONYMOUS, Client
from daemon.http.transport.answering import Lane
from daemon.site.rendering import render
from state.errors import Forbidden, TidelineError


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for a page."""

    name: str
    """From the path; empty if it has none."""
    table: str = ""
    """From the path, if it has one."""
    parameters: Mapping[str, str]
    """Those that are not blank."""
    may_operate: bool
    client: Client = ANONYMOUS


def require_operator(asked: Asked, what: str) -> None:
    """Raise Forbidden if the client may not act."""
    if not asked.may_operate:
        hint = "Sign in with a token that has the role 'operate'."
        raise Forbidden(f"{what} is shown to operators only", hint=hint)


class Values(Protocol):
    """Returns the values of a page's template."""

    def __call__(self, asked: Asked, /) -> Mapping[str, Any]:
        """Return them; raise a TidelineError, which becomes the page."""


class PageRoute(Route):
    """The route of a page."""

    def __init__(  # noqa: PLR0913 - a declaration
        self,
        path: str,
        template: str,
        values: Values,
        *,
        entry: str = "",
        parameters: type[Parameters] = Parameters,
        lane: Lane = Lane.STORE,
    ) -> None:
        """``entry`` is the page's name in the navigation; a page without one belongs to the entry above it in
        the path.
        """
        self.entry = entry
        self._page = _Page(template, values, parameters, lane)
        super().__init__(path, self._page.answer, methods=["GET"])


@dataclass(frozen=True, slots=True)
class _Page:
    template: str
    values: Values
    parameters: type[Parameters]
    lane: Lane

    async def answer(self, request: Request) -> Response:
        def make() -> Made:
            frame = _frame(request)
            given = {name: value for name, value in request.query_params.items() if value.strip()}
            try:
                refuse_unknown(self.parameters, given)
                asked = Asked(
                    name=request.path_params.get("name", ""),
                    table=request.path_params.get("table", ""),
                    parameters=given,
                    may_operate=may_operate(request),
                    client=frame["client"],
                )
                return _make(render(self.template, **frame, **self.values(asked)))
            except TidelineError as error:
                return _make(render("error.html", **frame, error=error), status_of(error))

        return await made_response(request, make, self.lane)


def _make(page: str, code: int = 200) -> Made:
    content = page.encode(errors="replace")
    return Made(
        content, HTML, code, etag=f'W/"{hashlib.sha256(content).hexdigest()[:32]}"' if code == 200 else ""
    )


def _frame(request: Request) -> dict[str, Any]:
    """Return the values that every template gets."""
    path = request.url.path
    entries = [
        (each.entry, each.path) for each in request.app.routes if isinstance(each, PageRoute) and each.entry
    ]
    here = max((entry for _, entry in entries if _is_below(path, entry)), key=len, default="")
    return {
        "entries": [{"name": name, "path": entry, "is_here": entry == here} for name, entry in entries],
        "client": getattr(request.state, "client", ANONYMOUS),
        "operates": may_operate(request),
    }


def _is_below(path: str, entry: str) -> bool:
    return path == entry or (entry != "/" and path.startswith(f"{entry}/"))
