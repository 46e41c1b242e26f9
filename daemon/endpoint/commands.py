"""``tideline serve``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from daemon.config.quantities import Quantity, WholeNumber, unit_of
from daemon.endpoint.settings import DEFAULT_LISTEN, EndpointSettings, parse_listen
from state.bounds import bounds_of, read_descriptions


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.endpoint.process import ProbesAddress


def limit(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the command-line option for a limit of the endpoint, with the default, bounds and help of its
    setting.
    """
    default: float = getattr(EndpointSettings(metastores=()), name)
    bounds: Any = bounds_of(EndpointSettings)[name]
    unit = unit_of(name)
    kind = WholeNumber(bounds.ge, bounds.le) if unit is None else Quantity(unit, bounds.ge, bounds.le)
    return click.option(
        f"--{name.replace('_', '-')}",
        default=default,
        show_default=True,
        type=kind,
        help=read_descriptions(EndpointSettings)[name],
    )


@click.command()
@click.option(
    "--metastore",
    "metastores",
    multiple=True,
    envvar="TIDELINE_SERVE_METASTORE",
    help="thrift://host:port of the metastore. Repeat it for further servers of the same metastore.",
)
@click.option(
    "--source", help="Serve this source of the configuration, with its settings ('serve') and its index."
)
@click.option(
    "-c",
    "--config",
    "config_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file for --source (default: ./tideline.yaml or /etc/tideline/tideline.yaml).",
)
@click.option("--progress-fd", type=WholeNumber(3), hidden=True, help="For the daemon: write reports here.")
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
    help="Authority that signs the certificates of clients; others are refused.",
)
@click.option("--metastore-tls", is_flag=True, help="Connect to the metastore with TLS.")
@click.option(
    "--metastore-tls-ca",
    type=click.Path(path_type=Path),
    help="Authority that signed the metastore's certificate; implies --metastore-tls. Default: the system's "
    "authorities.",
)
@click.option("--http", help="HOST:PORT for /metrics and /livez. Off by default.")
@click.option(
    "--http-token-file",
    type=click.Path(path_type=Path),
    help="File with tokens, one per line. /metrics then requires one of them; /livez does not.",
)
@limit("connections_max")
@limit("connections_per_address_max")
@limit("request_bytes_max")
@limit("requests_bytes_max")
@limit("first_byte_s")
@limit("connect_s")
@limit("answer_s")
@limit("idle_s")
@click.option(
    "--log-level",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Lowest level to log.",
)
def serve(  # noqa: PLR0913, PLR0917 - one parameter per option is click's way
    metastores: Sequence[str],
    source: str | None,
    config_path: Path | None,
    progress_fd: int | None,
    listen: str,
    tls_certificate: Path | None,
    tls_key: Path | None,
    tls_client_ca: Path | None,
    metastore_tls: bool,
    metastore_tls_ca: Path | None,
    http: str | None,
    http_token_file: Path | None,
    connections_max: int,
    connections_per_address_max: int,
    request_bytes_max: int,
    requests_bytes_max: int,
    first_byte_s: float,
    connect_s: float,
    answer_s: float,
    idle_s: float,
    log_level: str,
) -> None:
    """Serve the metastore's Thrift protocol, until SIGTERM, so that old clients work with a new metastore.

    The endpoint answers calls that the metastore dropped through their successors, and forwards every other
    call unchanged. Needs no configuration file, no Kafka and no state.

    With --source or --config, the settings are those of the section 'serve' of the configuration, and the
    index that the daemon maintains answers partition calls. Only --http, --http-token-file and --log-level
    apply then.
    """
    from daemon.endpoint.metrics import EndpointMetrics
    from daemon.endpoint.process import ProbesAddress, run_endpoint
    from daemon.process.logs import LogSettings, configure_logs
    from daemon.process.metrics import build_registry

    if http_token_file is not None and http is None:
        raise click.UsageError("--http-token-file requires --http.")
    probes = None if http is None else ProbesAddress(*parse_listen(http, "--http"), http_token_file)
    if source is not None or config_path is not None:
        _serve_source(config_path, source, probes, progress_fd, log_level, metastores)
        return
    if not metastores:
        raise click.UsageError("Missing option '--metastore' or '--source'.")
    from daemon.endpoint.protocol.peer import client_context, server_context
    from handlers.metastore.addresses import Address

    host, port = parse_listen(listen, "--listen")
    settings = EndpointSettings(
        metastores=tuple(Address.parse(uri) for uri in metastores),
        host=host,
        port=port,
        tls=server_context(tls_certificate, tls_key, tls_client_ca),
        metastore_tls=client_context(metastore_tls_ca, enabled=metastore_tls),
        connections_max=connections_max,
        connections_per_address_max=connections_per_address_max,
        request_bytes_max=request_bytes_max,
        requests_bytes_max=requests_bytes_max,
        first_byte_s=first_byte_s,
        connect_s=connect_s,
        answer_s=answer_s,
        idle_s=idle_s,
    )
    configure_logs(LogSettings(level=log_level))
    registry = build_registry()
    run_endpoint(settings, EndpointMetrics(registry), registry, http=probes)


def _serve_source(  # noqa: PLR0913, PLR0917 - the options that apply
    config_path: Path | None,
    source: str | None,
    http: ProbesAddress | None,
    progress_fd: int | None,
    log_level: str,
    metastores: Sequence[str],
) -> None:
    from daemon.endpoint.configured.run import serve_source
    from daemon.process.logs import LogSettings, configure_logs
    from daemon.terminal.application import load_config

    if metastores:
        raise click.UsageError("--metastore cannot be combined with --source or --config.")
    config = load_config(config_path)
    configure_logs(LogSettings(log_level, config.logs.format, config.logs.repeat_s, config.secrets()))
    serve_source(config, source, http=http, progress_fd=progress_fd)
