"""The page of the endpoints: calls answered from the index, and reasons to forward others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from daemon.endpoint.configured.status import ENDPOINTS
from daemon.http.transport.answering import Lane
from daemon.site.pages import Asked, PageRoute
from daemon.status.model import DaemonStatus


PATH: Final = "/endpoints"


def endpoint_page(status: Callable[[], DaemonStatus]) -> PageRoute:
    """Return the route of the page."""

    def values(_asked: Asked) -> dict[str, Any]:
        now = status()
        return {"endpoints": ENDPOINTS.of(now), "now_s": now.time_s}

    return PageRoute(PATH, "endpoints.html", values, entry="Endpoints", lane=Lane.STATUS)
