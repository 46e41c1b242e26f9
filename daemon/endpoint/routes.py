"""``/livez`` and ``/metrics`` of an endpoint that runs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.exposition import choose_encoder
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from daemon.http.endpoints import HEADERS


if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request


def endpoint_routes(registry: CollectorRegistry) -> Sequence[Route]:
    """Return the routes; they never wait for the metastore."""

    async def livez(_request: Request) -> Response:  # noqa: RUF029 - answered from memory
        return JSONResponse({"ok": True, "reasons": []}, headers=HEADERS)

    async def metrics(request: Request) -> Response:  # noqa: RUF029 - answered from memory
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={**HEADERS, "content-type": content_type})

    return [Route("/livez", livez, methods=["GET"]), Route("/metrics", metrics, methods=["GET"])]
