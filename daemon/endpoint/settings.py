"""Settings of the endpoint: its address, its metastores, and its limits."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

from annotated_types import Interval

from handlers.metastore.addresses import DEFAULT_PORT, Address, Login
from state.errors import ConfigError


DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_LISTEN: Final = f"{DEFAULT_HOST}:{DEFAULT_PORT}"
PORT_MAX: Final = 65_535


def parse_listen(text: str, option: str = "an address") -> tuple[str, int]:
    """Return host and port of ``HOST:PORT`` or ``[HOST]:PORT``; raise ConfigError that names ``option``."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > PORT_MAX:
        raise ConfigError(
            f"{option} must have the form HOST:PORT",
            value=text,
            hint=f"Write for example 0.0.0.0:9083; the port must be at most {PORT_MAX}.",
        )
    return host, int(port)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """The settings of an endpoint. The defaults fit a metastore with Hive's defaults."""

    metastores: Sequence[Address]
    """Servers of one metastore; each connection uses the first one that accepts it."""
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    tls: ssl.SSLContext | None = None
    """How clients connect; None for connections without TLS."""
    login: Login | None = field(default=None, repr=False)
    """How the endpoint logs in for its own queries; clients log in themselves."""
    metastore_tls: ssl.SSLContext | None = None
    """How the metastore is connected to; None for connections without TLS."""
    connections_max: Annotated[int, Interval(ge=1, le=100_000)] = 512
    """Maximum number of connected clients. Beyond it, the endpoint closes the connection that has waited
    longest for its client for a new one.
    """
    connections_per_address_max: Annotated[int, Interval(ge=1, le=100_000)] = 384
    """Maximum number of connected clients with one address. Raise it if clients share an address, such as
    that of a load balancer.
    """
    # Hive's own limit (``metastore.server.max.message.size``) is 100 MiB by default.
    request_bytes_max: Annotated[int, Interval(ge=1024, le=2**31 - 1)] = 64 << 20
    """Size of the largest request."""
    requests_bytes_max: Annotated[int, Interval(ge=1 << 20, le=2**40)] = 64 << 20
    """Size of all requests together without an answer yet, except the first 64 KiB of each. Above it, the
    endpoint drops the incomplete request that began first. The process needs about five times as much memory.
    """
    answer_bytes_max: int = 256 << 20
    """Size of a translated answer. Forwarded answers have no limit, because they are never in memory as a
    whole.
    """
    # This applies to each server, and to the TLS handshake on either side.
    connect_s: Annotated[float, Interval(ge=0.1, le=3600)] = 10
    """Time to connect to the metastore."""
    request_s: float = 120.0
    """Time in which a request that has begun must be complete, and a client must accept a piece of an answer
    (at most 256 KiB)."""
    first_byte_s: Annotated[float, Interval(ge=0.1, le=86_400)] = 30
    """Time in which a new client must begin its first request."""
    # Hive's clients wait for the same time by default.
    answer_s: Annotated[float, Interval(ge=0.1, le=86_400)] = 600
    """Time in which the metastore must begin or continue an answer."""
    idle_s: Annotated[float, Interval(ge=0.1, le=2_000_000)] = 86_400
    """Lifetime of a connection without calls."""
    drain_s: float = 10.0
    """Time that calls in progress get at the end."""
