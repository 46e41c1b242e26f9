"""The styles and scripts of the site.

Two scripts are other projects'. They have their published form, and a test compares their checksums
(``static/README.md``).
"""

from __future__ import annotations

from functools import cache
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.http.endpoints import Made, build_response, problem_response
from daemon.site.rendering import STATIC, static_files
from state.errors import NotFound


_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_CACHED: Final = "public, max-age=31536000, immutable"
"""The path changes with the content (``rendering.static_path``)."""


def static_route() -> Route:
    """Return the route of all styles and scripts."""

    async def endpoint(request: Request) -> Response:
        found = _read_all().get(request.path_params["name"])
        if found is None:
            return problem_response(NotFound("the file does not exist"))
        response = build_response(found.content, found.content_type)
        response.headers["cache-control"] = _CACHED
        return response

    return Route(f"{STATIC}/{{name}}", endpoint, methods=["GET"])


@cache
def _read_all() -> dict[str, Made]:
    return {
        file.name: Made(file.read_bytes(), _TYPES[kind])
        for file in static_files().iterdir()
        if (kind := file.name.rpartition(".")[2]) in _TYPES
    }
