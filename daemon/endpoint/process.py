"""Runs an endpoint as a process until SIGTERM, then finishes calls in progress. It may serve ``/livez`` and
``/metrics``.
"""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import structlog
from starlette.applications import Starlette
from starlette.routing import Route

from daemon.endpoint.server import EndpointServer
from daemon.endpoint.upstream import check_metastore, refuse_own_address
from daemon.http.access import Access, Gate
from daemon.http.endpoints import UNROUTED, make_metrics, metrics_response, probe_response
from daemon.http.metrics import HttpMetrics
from daemon.http.tokens import Client, Role, TokenFile, Tokens
from daemon.http.transport.limits import PROBES
from daemon.http.transport.server import HttpServer, bind
from daemon.process.descriptors import raise_limit
from daemon.process.garbage import shorten_pauses
from daemon.process.signals import stop_signals


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request
    from starlette.responses import Response

    from daemon.endpoint.metrics import EndpointMetrics
    from daemon.endpoint.responders import Responder
    from daemon.endpoint.settings import EndpointSettings


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProbesAddress:
    """Address of ``/livez`` and ``/metrics``."""

    host: str
    port: int
    token_file: Path | None = None
    """Tokens for ``/metrics``, one per line. Without a file, everyone who reaches the address may read it."""


def run_endpoint(
    settings: EndpointSettings,
    metrics: EndpointMetrics,
    registry: CollectorRegistry,
    *,
    http: ProbesAddress | None = None,
    make_responders: Callable[[], Sequence[Responder]] = tuple,
    started: Callable[[str], None] = lambda _address: None,
) -> None:
    """Serve until SIGTERM or SIGINT; ``started`` receives the address.
    Main thread only. Raises ConfigError.
    """
    refuse_own_address(settings)
    raise_limit()  # each client needs two descriptors
    shorten_pauses()
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
def _probes(registry: CollectorRegistry, http: ProbesAddress | None) -> Iterator[str | None]:
    """Serve ``/metrics`` and ``/livez`` during the block if there is an address; yield the address."""
    if http is None:
        yield None
        return
    refused = HttpMetrics(registry).refused_by("probes")
    app = Starlette(routes=endpoint_routes(registry, http, refused), exception_handlers=UNROUTED)
    with closing(HttpServer(app, bind(http.host, http.port), limits=PROBES, refused=refused)) as probes:
        probes.start()
        yield f"{probes.host}:{probes.port}"


def endpoint_routes(
    registry: CollectorRegistry, http: ProbesAddress, refused: Callable[[str], None]
) -> Sequence[Route]:
    """Return the routes of ``/livez`` and ``/metrics``, which never wait for the metastore."""

    async def livez(_request: Request) -> Response:  # noqa: RUF029 - answered from memory
        return probe_response()

    async def metrics(request: Request) -> Response:
        return await metrics_response(request, partial(make_metrics, registry))

    routes = [Route("/livez", livez, methods=["GET"])]
    measured = Route("/metrics", metrics, methods=["GET"])
    if http.token_file is None:
        return [*routes, measured]
    tokens = Tokens([TokenFile(Client("metrics", Role.VIEW), http.token_file)])
    access = Access(tokens=tokens, allows_anonymous=False)
    # Probes of Kubernetes have no token.
    return [*routes, Route("/metrics", Gate(Starlette(routes=[measured]), access, refused))]
