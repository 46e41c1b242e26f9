"""``/livez`` and ``/metrics`` of an endpoint that runs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route

from daemon.http.endpoints import metrics_response, probe_response


if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request
    from starlette.responses import Response


def endpoint_routes(registry: CollectorRegistry) -> Sequence[Route]:
    """Return the routes; they never wait for the metastore."""

    async def livez(_request: Request) -> Response:  # noqa: RUF029 - answered from memory
        return probe_response()

    async def metrics(request: Request) -> Response:  # noqa: RUF029 - answered from memory
        return metrics_response(request, registry)

    return [Route("/livez", livez, methods=["GET"]), Route("/metrics", metrics, methods=["GET"])]
