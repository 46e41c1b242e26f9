"""Settings of the process itself: state, port, logs, copying of files, and restarts.

All have defaults that suit a daemon on its own machine.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from daemon.config.fields import BYTES_PER_S_MIN, Name, Options, Secret, as_list
from daemon.config.section import Section, refused, setting
from daemon.process.logs import LogSettings
from daemon.process.loops.retry_policy import FAILED_RETRY, RestartPolicy
from daemon.process.metrics import POLICIES_MAX
from handlers.files.copying.pool import WORKERS_DEFAULT


class StateConfig(Section):
    """The daemon's state."""

    dir: Path = Field(
        default=Path("/var/lib/tideline"),
        description="Directory of positions and state, on a local disk. Only one daemon may use it.",
    )


class HttpTokenConfig(Section):
    """A file with bearer tokens, and their rights."""

    role: Literal["view", "operate"] = Field(
        default="view",
        description="Rights of the tokens: 'view' reads everything except the names of users; 'operate' "
        "reads those too and may change things.",
    )
    file: Path = Field(
        description="File with tokens of at least 16 characters, one per line. The daemon reads it again "
        "when it changes.",
    )


class HttpTlsConfig(Section):
    """Encryption of HTTP, and certificates of clients."""

    certificate: Path = Field(description="Certificate with its chain, as PEM. Read again when it changes.")
    key: Path = Field(description="Unencrypted key of the certificate, as PEM.")
    client_ca: Path | None = Field(
        default=None,
        description="Authority that signs the certificates of clients. A client with such a certificate may "
        "view.",
    )
    operators: list[str] = Field(
        default=[],
        max_length=64,
        description="Names in certificates of clients (subject or alternative name) that have the role "
        "'operate'.",
    )


class HttpConfig(Section):
    """The site, the JSON API, probes and metrics (docs/HTTP.md)."""

    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on; 0.0.0.0 for all, which requires tokens, client_ca or "
        "allow_anonymous.",
    )
    port: int = Field(
        default=8470,
        ge=0,
        le=65535,
        description="Port. 0 selects a free one and writes it to <state.dir>/http.json.",
    )
    probes_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address of the listener for probes and metrics, which needs no token.",
    )
    probes_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Port for probes and metrics. By default, the one after 'port', or a free one if 'port' "
        "is 0.",
    )
    allow_anonymous: bool = Field(
        default=False,
        description="Whether clients without a token and a certificate may view, even if others have one or "
        "the whole network can reach the port.",
    )
    tokens: dict[Name, HttpTokenConfig] = Field(
        default={}, max_length=64, description="Tokens, by the name of the client as shown in logs."
    )
    tls: HttpTlsConfig | None = Field(default=None, description="TLS; probes and metrics do not use it.")
    names: Annotated[list[str], BeforeValidator(as_list)] = Field(
        default=[],
        max_length=64,
        description="Names by which browsers and clients without a token reach this machine, such as that "
        "of a proxy. Its own name, localhost and addresses need not be listed.",
    )
    connections_max: int = Field(
        default=128, ge=4, le=10_000, description="Simultaneous connections; probes have their own limit."
    )
    connections_per_address_max: int = Field(
        default=64,
        ge=2,
        le=10_000,
        description="Connections of one address. Raise it if clients connect through a proxy.",
    )
    answers_bytes_max: int = Field(
        default=128 * 1024 * 1024,
        ge=1024 * 1024,
        description="Size of all answers that clients have not read yet. Above it, the daemon refuses "
        "requests with 503.",
    )
    waits_max: int = Field(
        default=4096,
        ge=1,
        le=50_000,
        description="Requests that may wait for a condition (/api/v1/wait) at the same time. Their "
        "connections do not count towards connections_max.",
    )
    lag_ready_s: float = Field(
        default=300, gt=0, description="Lag above which /readyz reports that the daemon is not ready."
    )

    @model_validator(mode="after")
    def _check_clients(self) -> Self:
        has_clients = self.tokens or (self.tls is not None and self.tls.client_ca is not None)
        if not (has_clients or self.allow_anonymous or is_loopback(self.host)):
            raise refused(
                f"lets everyone who reaches {self.host} read everything: add 'tokens' or 'tls.client_ca', or "
                "set allow_anonymous: true"
            )
        return self


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class MetricsConfig(Section):
    """How detailed the metrics are."""

    policies_max: int = Field(
        default=POLICIES_MAX,
        ge=1,
        le=10_000,
        description="Number of policies up to which each policy has all its series. With more policies, "
        "series that no alert needs per policy are summed under the label 'all'.",
    )


class DocsConfig(Section):
    """Where readers find the documentation that messages name."""

    url: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        max_length=1024,
        description="Address of the documentation site (the files of 'make docs'). Messages, logs and the "
        "status then link to its pages; otherwise they name the command that shows a page ('tideline docs').",
    )


class LogsConfig(Section):
    """The log on standard output."""

    level: Literal["debug", "info", "warning", "error"] = setting(LogSettings, "level")
    format: Literal["auto", "json", "console"] = setting(LogSettings, "format")
    repeat_s: float = setting(LogSettings, "repeat_s")


class FilesConfig(Section):
    """Copying of files between the clusters."""

    copy_workers: int = Field(
        default=WORKERS_DEFAULT,
        ge=1,
        le=256,
        description="Files that all policies of a target copy at the same time, and as many again for "
        "loads. Half as many further files are for policies without a copy in progress, so that "
        "large files of one policy do not delay the others.",
    )
    bytes_per_s_max: int | None = Field(
        default=None,
        ge=BYTES_PER_S_MIN,
        description="Bytes per second that the daemon reads for all copies together, without copy jobs; "
        "default: no limit. Copies for replay precede those for loads, and those precede the cycles of "
        "external tables.",
    )
    options: dict[Name, Options] = Field(
        default={},
        description="Settings by file system scheme: those of pyarrow for s3a, gs and abfs, and those of "
        "Hadoop for hdfs and viewfs.",
    )
    secrets: dict[Name, dict[str, Secret]] = Field(
        default={},
        description="Secret settings by scheme, such as secret_key: {file: PATH} or {env: NAME}.",
    )

    def all_options(self) -> dict[str, dict[str, object]]:
        """Return options and secrets together, by scheme."""
        merged: dict[str, dict[str, object]] = {scheme: dict(given) for scheme, given in self.options.items()}
        for scheme, secrets in self.secrets.items():
            texts = {key: secret.get_secret_value() for key, secret in secrets.items()}
            merged.setdefault(scheme, {}).update(texts)
        return merged


class SupervisorConfig(Section):
    """Restarts of loops, and the end of the process."""

    backoff_min_s: float = Field(default=0.5, gt=0, le=60, description="Shortest delay before a restart.")
    backoff_max_s: float = Field(default=60, gt=0, le=3600, description="Longest delay before a restart.")
    attempts_max: int = setting(RestartPolicy, "attempts_max")
    failed_retry_s: float = Field(
        default=FAILED_RETRY.max_s,
        ge=1,
        le=86_400,
        description="Longest delay before the next attempt of a loop that needs an operator.",
    )
    drain_s: float = Field(default=20, gt=0, le=600, description="Time for loops to end after SIGTERM.")
    heartbeat_max_s: float = Field(
        default=300,
        ge=10,
        le=86_400,
        description="Maximum age of a loop's last heartbeat; above it, /livez fails.",
    )
