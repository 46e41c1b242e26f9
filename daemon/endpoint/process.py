"""An endpoint as a process: it listens until SIGTERM, then lets calls in progress end.
It may serve ``/livez`` and ``/metrics``.
"""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import structlog
from starlette.applications import Starlette
from starlette.routing import Route

from daemon.endpoint.server import EndpointServer
from daemon.endpoint.upstream import check_metastore, refuse_own_address
from daemon.http.endpoints import metrics_response, probe_response
from daemon.http.transport.limits import PROBES
from daemon.http.transport.server import HttpServer
from daemon.process.descriptors import raise_limit
from daemon.process.signals import stop_signals


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request
    from starlette.responses import Response

    from daemon.endpoint.metrics import EndpointMetrics
    from daemon.endpoint.responders import Responder
    from daemon.endpoint.settings import EndpointSettings


log = structlog.get_logger(__name__)


def run_endpoint(
    settings: EndpointSettings,
    metrics: EndpointMetrics,
    registry: CollectorRegistry,
    *,
    http: tuple[str, int] | None = None,
    make_responders: Callable[[], Sequence[Responder]] = tuple,
    started: Callable[[str], None] = lambda _address: None,
) -> None:
    """Serve until SIGTERM or SIGINT; ``started`` receives the address.
    Main thread only. Raises ConfigError.
    """
    refuse_own_address(settings)
    raise_limit()  # each client needs two descriptors
    with stop_signals() as stopping:
        server = EndpointServer(settings, metrics, make_responders)
        with _probes(registry, http) as probes:
            server.start()
            address = f"{settings.host}:{server.port}"
            metastores = [str(each) for each in settings.metastores]
            log.info("serving", listen=address, metastores=metastores, http=probes)
            started(address)
            threading.Thread(target=check_metastore, args=(settings,), daemon=True).start()
            stopping.wait()
            log.info("stopping", drain_s=settings.drain_s)
            cut_off = server.close()
        log.info("stopped", calls_cut_off=cut_off)


@contextmanager
def _probes(registry: CollectorRegistry, http: tuple[str, int] | None) -> Iterator[str | None]:
    """Serve ``/metrics`` and ``/livez`` if an address is given, and yield it."""
    if http is None:
        yield None
        return
    with closing(HttpServer(Starlette(routes=endpoint_routes(registry)), *http, limits=PROBES)) as probes:
        probes.start()
        yield f"{probes.host}:{probes.port}"


def endpoint_routes(registry: CollectorRegistry) -> Sequence[Route]:
    """Return the routes; they never wait for the metastore."""

    async def livez(_request: Request) -> Response:  # noqa: RUF029 - answered from memory
        return probe_response()

    async def metrics(request: Request) -> Response:
        return await metrics_response(request, registry)

    return [Route("/livez", livez, methods=["GET"]), Route("/metrics", metrics, methods=["GET"])]
