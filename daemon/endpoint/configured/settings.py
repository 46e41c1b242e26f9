"""The section ``serve`` of the configuration: the metastore endpoints of sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from daemon.config.crosscheck import entries, problem
from daemon.config.document import Document, Problem
from daemon.config.fields import Name, ThriftUris
from daemon.config.model import Config
from daemon.config.section import ConfigSection, Section, refused, setting
from daemon.endpoint.freshness.newest_event import Freshness
from daemon.endpoint.protocol.peer import client_context, server_context
from daemon.endpoint.settings import DEFAULT_LISTEN, EndpointSettings, parse_listen
from handlers.metastore.addresses import Address
from state.errors import ConfigError


def _check_listen(text: str) -> str:
    try:
        parse_listen(text)
    except ConfigError:
        raise refused("must have the form HOST:PORT, such as 0.0.0.0:9083") from None
    return text


class ServeConfig(Section):
    """A metastore endpoint in front of the source of this name.

    It answers partition calls from the source's partition index.
    """

    run: bool = Field(
        default=True,
        description="Whether the daemon runs the endpoint, as a child process. Otherwise 'tideline serve "
        "--source NAME' runs it.",
    )
    listen: Annotated[str, AfterValidator(_check_listen)] = Field(
        default=DEFAULT_LISTEN, description="HOST:PORT for clients."
    )
    metastore: ThriftUris = Field(
        default=[],
        max_length=16,
        description="Servers that receive forwarded calls, tried in this order; default: the source's "
        "metastore.",
    )
    freshness: Literal["exact", "bounded", "eventual"] = Field(
        default="exact",
        description="Changes that an answer must include: 'exact' (all that were committed before the "
        "request), 'bounded' (all that were committed bound_ms before it) or 'eventual' (those that the "
        "index has now).",
    )
    bound_ms: float = Field(
        default=1000, gt=0, le=3_600_000, description="Maximum age of an answer if freshness is 'bounded'."
    )
    wait_ms: float = Field(
        default=500,
        ge=0,
        le=60_000,
        description="How long a request waits for the index to catch up before it is forwarded.",
    )
    verify_ratio: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the index's answers to compare with the metastore's, in the background.",
    )
    tls_certificate: Path | None = Field(
        default=None, description="Certificate chain of the endpoint (PEM). Clients must then use TLS."
    )
    tls_key: Path | None = Field(
        default=None, description="Private key, if it is not in the file of the certificate."
    )
    tls_client_ca: Path | None = Field(
        default=None, description="Authority that signs the certificates of clients; others are refused."
    )
    metastore_tls: bool = Field(
        default=False, description="Whether the endpoint uses TLS to connect to the metastore."
    )
    metastore_tls_ca: Path | None = Field(
        default=None,
        description="Authority that signed the metastore's certificate; implies metastore_tls. Default: the "
        "system's authorities.",
    )
    connections_max: int = setting(EndpointSettings, "connections_max")
    connections_per_address_max: int = setting(EndpointSettings, "connections_per_address_max")
    request_bytes_max: int = setting(EndpointSettings, "request_bytes_max")
    requests_bytes_max: int = setting(EndpointSettings, "requests_bytes_max")
    first_byte_s: float = setting(EndpointSettings, "first_byte_s")
    connect_s: float = setting(EndpointSettings, "connect_s")
    answer_s: float = setting(EndpointSettings, "answer_s")
    idle_s: float = setting(EndpointSettings, "idle_s")

    @property
    def rule(self) -> Freshness:
        """The required freshness of answers."""
        ages_s = {"exact": 0.0, "bounded": self.bound_ms / 1000, "eventual": None}
        return Freshness(ages_s[self.freshness])


SERVE: Final[ConfigSection[dict[str, ServeConfig]]] = ConfigSection(
    "serve",
    dict[Name, ServeConfig],
    Field(default={}, max_length=64, description="Metastore endpoints, by source."),
)


def endpoint_settings(config: Config, source: str) -> EndpointSettings:
    """Return the settings of a source's endpoint; raise ConfigError if a certificate is unreadable."""
    serve = SERVE.of(config)[source]
    host, port = parse_listen(serve.listen)
    followed = config.sources[source]
    uris = serve.metastore or followed.metastore
    return EndpointSettings(
        metastores=tuple(Address.parse(uri) for uri in uris),
        host=host,
        port=port,
        tls=server_context(serve.tls_certificate, serve.tls_key, serve.tls_client_ca),
        login=None if followed.auth is None else followed.auth.login(),
        metastore_tls=client_context(serve.metastore_tls_ca, enabled=serve.metastore_tls),
        connections_max=serve.connections_max,
        connections_per_address_max=serve.connections_per_address_max,
        request_bytes_max=serve.request_bytes_max,
        requests_bytes_max=serve.requests_bytes_max,
        first_byte_s=serve.first_byte_s,
        connect_s=serve.connect_s,
        answer_s=serve.answer_s,
        idle_s=serve.idle_s,
    )


def choose_source(config: Config, source: str | None) -> str:
    """Return the named source, or the only one with an endpoint; raise ConfigError."""
    names = list(SERVE.of(config))
    if source in names:
        return source
    if source is None and len(names) == 1:
        return names[0]
    hint = f"Give --source: {', '.join(names)}." if names else "Add the source to 'serve'."
    reason = "several sources have an endpoint" if len(names) > 1 else "no endpoint is configured"
    raise ConfigError(reason if source is None else "the source has no endpoint", hint=hint, source=source)


def cross_problems(document: Document) -> Iterator[Problem]:
    """Yield the problems between endpoints and other settings."""
    sources = [name for name, _ in entries(document, "sources")]
    users: dict[str, str] = {}
    for name, serve in entries(document, "serve"):
        if name not in sources:
            hint = f"known sources: {', '.join(sources) or 'none'}"
            yield problem(document, ("serve", name), name, "must be a source", hint)
        listen = serve.get("listen", DEFAULT_LISTEN)
        if isinstance(listen, str) and not listen.endswith(":0"):
            if listen in users:
                reason = f"is already the address of the endpoint of {users[listen]!r}"
                yield problem(
                    document, ("serve", name, "listen"), listen, reason, "give each endpoint its own port"
                )
            users.setdefault(listen, name)
