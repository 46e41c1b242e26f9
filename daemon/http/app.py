"""The routes: GET only, nothing that changes anything and no secrets; timelines and partitions alone take parameters.

Every answer but those about partitions and flat tables is made from values that other threads have left ready, without locks that an apply loop could
hold and without asking any other system, so that a probe is answered while the metastore is down. Partitions are read from
their store, flat tables from the key log, by threads of their own, which may wait. ``/livez`` speaks of heartbeats alone:
restarting the process helps a loop that hangs, never a dependency that is away. ``/readyz`` says whether what is served is
fresh.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from daemon.flat.routes import flat_routes
from daemon.partitions.routes import partition_routes
from daemon.status.page import status_page
from daemon.timelines.routes import timeline_routes


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request

    from daemon.flat.tables import FlatAnswers
    from daemon.partitions.answers import PartitionAnswers
    from daemon.status.model import DaemonStatus
    from daemon.timelines.answers import TimelineAnswers


_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Views:
    """What the routes may ask; each answers at once, from any thread."""

    status: Callable[[], DaemonStatus]
    stuck: Callable[[], Sequence[str]]
    registry: CollectorRegistry
    lag_ready_s: float
    timelines: TimelineAnswers | None = None
    """None where no catalog is configured."""
    partitions: PartitionAnswers | None = None
    """None where no table is indexed."""
    flats: FlatAnswers | None = None
    """None where no flat table is configured."""


def build_app(views: Views) -> Starlette:
    """Return the application."""
    routes = _Routes(views)
    timelines = [] if views.timelines is None else timeline_routes(views.timelines, _HEADERS)
    partitions = [] if views.partitions is None else partition_routes(views.partitions, _HEADERS)
    flats = [] if views.flats is None else flat_routes(views.flats, _HEADERS)
    return Starlette(
        routes=[
            Route("/", routes.page, methods=["GET"]),
            Route("/livez", routes.livez, methods=["GET"]),
            Route("/readyz", routes.readyz, methods=["GET"]),
            Route("/metrics", routes.metrics, methods=["GET"]),
            Route("/api/v1/status", routes.status, methods=["GET"]),
            *timelines,
            *partitions,
            *flats,
        ],
    )


class _Routes:
    """The handlers; coroutines that never wait, so they need no thread pool."""

    def __init__(self, views: Views) -> None:
        self._views = views

    async def livez(self, _request: Request) -> Response:
        return _probe([f"{name} has no heartbeat" for name in self._views.stuck()])

    async def readyz(self, _request: Request) -> Response:
        return _probe(self._views.status().ready(self._views.lag_ready_s))

    async def metrics(self, request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return _answer(encode(self._views.registry), content_type)

    async def status(self, _request: Request) -> Response:
        return _json(self._views.status().to_json())

    async def page(self, _request: Request) -> Response:
        return _answer(status_page(self._views.status()).encode(), "text/html; charset=utf-8")


def _probe(reasons: list[str]) -> Response:
    return _json({"ok": not reasons, "reasons": reasons}, 503 if reasons else 200)


def _json(value: dict[str, Any], code: int = 200) -> Response:
    return _answer(orjson.dumps(value), "application/json", code)


def _answer(body: bytes, content_type: str, code: int = 200) -> Response:
    return Response(body, code, {**_HEADERS, "content-type": content_type})
