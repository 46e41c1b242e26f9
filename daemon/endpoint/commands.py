"""``tideline serve``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from daemon.endpoint.settings import DEFAULT_LISTEN, EndpointSettings
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Sequence


DEFAULTS = EndpointSettings(metastores=())


@click.command()
@click.option(
    "--metastore",
    "metastores",
    multiple=True,
    required=True,
    envvar="TIDELINE_SERVE_METASTORE",
    help="thrift://host:port of the metastore. Repeat it for further servers of the same metastore.",
)
@click.option("--listen", default=DEFAULT_LISTEN, show_default=True, help="HOST:PORT for clients.")
@click.option(
    "--tls-certificate",
    type=click.Path(path_type=Path),
    help="Certificate chain of the endpoint (PEM). Clients must then use TLS.",
)
@click.option(
    "--tls-key",
    type=click.Path(path_type=Path),
    help="Private key, if it is not in the file of the certificate.",
)
@click.option(
    "--tls-client-ca",
    type=click.Path(path_type=Path),
    help="Authority that must have signed the certificates of clients.",
)
@click.option("--metastore-tls", is_flag=True, help="Connect to the metastore with TLS.")
@click.option(
    "--metastore-tls-ca",
    type=click.Path(path_type=Path),
    help="Authority that signed the metastore's certificate; implies --metastore-tls. Default: those of the system.",
)
@click.option("--http", help="HOST:PORT for /metrics and /livez. Off by default.")
@click.option(
    "--connections-max",
    default=DEFAULTS.connections_max,
    show_default=True,
    type=click.IntRange(1),
    help="Number of clients that may be connected.",
)
@click.option(
    "--request-bytes-max",
    default=DEFAULTS.request_bytes_max,
    show_default=True,
    type=click.IntRange(1024, 2**31 - 1),
    help="Size of the largest request.",
)
@click.option(
    "--connect-s",
    default=DEFAULTS.connect_s,
    show_default=True,
    type=click.FloatRange(0.1),
    help="Time to connect to the metastore.",
)
@click.option(
    "--answer-s",
    default=DEFAULTS.answer_s,
    show_default=True,
    type=click.FloatRange(0.1),
    help="Time in which the metastore must begin or continue an answer.",
)
@click.option(
    "--idle-s",
    default=DEFAULTS.idle_s,
    show_default=True,
    type=click.FloatRange(0.1, 2_000_000),
    help="Time after which a connection without calls is closed.",
)
@click.option(
    "--log-level",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Lowest level that is logged.",
)
def serve(  # noqa: PLR0913, PLR0917 - one parameter per option is click's way
    metastores: Sequence[str],
    listen: str,
    tls_certificate: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    metastore_tls: bool,
    metastore_tls_ca: Path | None,
    http: str | None,
    connections_max: int,
    request_bytes_max: int,
    connect_s: float,
    answer_s: float,
    idle_s: float,
    log_level: str,
) -> None:
    """Serve the metastore's Thrift protocol, until SIGTERM, so that old clients work with a new metastore.

    Calls that the metastore dropped are answered through their successors; every other call is forwarded unchanged.
    Needs no configuration file, no Kafka and no state.
    """
    from daemon.endpoint.tls import client_context, server_context
    from handlers.metastore.connection import Address

    host, port = _parse_address("--listen", listen)
    settings = EndpointSettings(
        metastores=tuple(Address.parse(uri) for uri in metastores),
        host=host,
        port=port,
        tls=server_context(tls_certificate, tls_key, tls_client_ca),
        metastore_tls=client_context(metastore_tls_ca, enabled=metastore_tls),
        connections_max=connections_max,
        request_bytes_max=request_bytes_max,
        connect_s=connect_s,
        answer_s=answer_s,
        idle_s=idle_s,
    )
    _serve(settings, None if http is None else _parse_address("--http", http), log_level)


def _serve(settings: EndpointSettings, http: tuple[str, int] | None, log_level: str) -> None:
    import threading

    import structlog
    from starlette.applications import Starlette

    from daemon.endpoint.metrics import EndpointMetrics
    from daemon.endpoint.routes import endpoint_routes
    from daemon.endpoint.server import EndpointServer
    from daemon.endpoint.upstream import check_metastore
    from daemon.http.server import HttpServer
    from daemon.process.logs import LogSettings, configure_logs
    from daemon.process.metrics import build_registry
    from daemon.process.signals import stop_signals

    configure_logs(LogSettings(level=log_level))
    log = structlog.get_logger(__name__)
    registry = build_registry()
    with stop_signals() as stopping:
        server = EndpointServer(settings, EndpointMetrics(registry))
        probes = None if http is None else HttpServer(Starlette(routes=endpoint_routes(registry)), *http)
        server.start()
        if probes is not None:
            probes.start()
        log.info(
            "serving",
            listen=f"{settings.host}:{server.port}",
            metastores=[str(address) for address in settings.metastores],
            http=None if probes is None else f"{probes.host}:{probes.port}",
        )
        threading.Thread(target=check_metastore, args=(settings,), daemon=True).start()
        stopping.wait()
        log.info("stopping", drain_s=settings.drain_s)
        cut_off = server.close()
        if probes is not None:
            probes.close()
        log.info("stopped", calls_cut_off=cut_off)


def _parse_address(option: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(
            f"{option} must have the form HOST:PORT", value=text, hint="For example 0.0.0.0:9083."
        )
    return host, int(port)
