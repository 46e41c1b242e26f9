"""Settings of the process itself: its state, its port, its logs, copying of files, and restarts.

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
    """The state that the daemon keeps."""

    dir: Path = Field(
        default=Path("/var/lib/tideline"),
        description="Directory of positions and state, on a local disk. Only one daemon may use it.",
    )


class HttpTokenConfig(Section):
    """A file with bearer tokens, and what they allow."""

    role: Literal["view", "operate"] = Field(
        default="view",
        description="What the tokens allow: 'view' reads everything but the names of users; 'operate' reads "
        "those too, and may change something.",
    )
    file: Path = Field(
        description="File with tokens of at least 16 characters, one per line. It is read again when it "
        "changes.",
    )


class HttpTlsConfig(Section):
    """Encryption of HTTP, and certificates of clients."""

    certificate: Path = Field(description="Certificate with its chain, as PEM. Read again when it changes.")
    key: Path = Field(description="Unencrypted key of the certificate, as PEM.")
    client_ca: Path | None = Field(
        default=None,
        description="Authority that signs the certificates of clients. A client that shows one may view.",
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
        description="Port. 0 chooses a free one, which is written to <state.dir>/http.json.",
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
        description="Port for probes and metrics. By default, the one after 'port', or a free one where "
        "that is 0.",
    )
    allow_anonymous: bool = Field(
        default=False,
        description="Whether clients without token and certificate may view although others have one, or "
        "although everyone in the network reaches the port.",
    )
    tokens: dict[Name, HttpTokenConfig] = Field(
        default={}, max_length=64, description="Tokens by the name of the client, which logs show."
    )
    tls: HttpTlsConfig | None = Field(default=None, description="TLS; probes and metrics have none.")
    names: Annotated[list[str], BeforeValidator(as_list)] = Field(
        default=[],
        max_length=64,
        description="Names by which browsers and clients without a token reach this machine, such as that "
        "of a proxy. Its own name, localhost and addresses need not be listed.",
    )
    connections_max: int = Field(
        default=128, ge=4, le=10_000, description="Connections at the same time; probes have their own."
    )
    connections_per_address_max: int = Field(
        default=64,
        ge=2,
        le=10_000,
        description="Connections of one address. Raise it if a proxy stands in front of the daemon.",
    )
    answers_bytes_max: int = Field(
        default=128 * 1024 * 1024,
        ge=1024 * 1024,
        description="Size of all answers that clients have not read yet. Further ones are refused with 503.",
    )
    waits_max: int = Field(
        default=4096,
        ge=1,
        le=50_000,
        description="Requests that wait for a condition (/api/v1/wait) at the same time. Their connections "
        "do not count among connections_max.",
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
    """Whether only this machine reaches an address."""
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
        description="Up to so many policies have all their series. With more, series that no alert "
        "needs for each policy are summed, with the label 'all'.",
    )


class DocsConfig(Section):
    """Where readers find the documentation that messages name."""

    url: str = Field(
        default="",
        pattern=r"^(https?://\S+)?$",
        max_length=1024,
        description="Address of the documentation's site (the files of 'make docs'). Messages, logs and the "
        "status then name pages by this address, and otherwise by the command that shows them "
        "('tideline docs').",
    )


class LogsConfig(Section):
    """What is written to standard output."""

    level: Literal["debug", "info", "warning", "error"] = setting(LogSettings, "level")
    format: Literal["auto", "json", "console"] = setting(LogSettings, "format")
    repeat_s: float = setting(LogSettings, "repeat_s")


class FilesConfig(Section):
    """Copying of files between the clusters."""

    copy_workers: int = Field(
        default=WORKERS_DEFAULT,
        ge=1,
        le=256,
        description="Files that all policies of a target copy at the same time, and as many again for loads. "
        "Half as many more are copied for policies that have none, so that large files of one policy do not "
        "delay the others.",
    )
    bytes_per_s_max: int | None = Field(
        default=None,
        ge=BYTES_PER_S_MIN,
        description="Bytes that the daemon reads in a second for all copies together, without copy jobs; no "
        "limit if not given. Copies for replay come before those of loads, and loads before the cycles of "
        "external tables.",
    )
    options: dict[Name, Options] = Field(
        default={},
        description="Settings by file system scheme, under their own names: those of pyarrow for s3a, gs "
        "and abfs, those of Hadoop for hdfs and viewfs.",
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
        description="Longest delay before a loop that needs an operator is tried again, in case its cause "
        "is gone.",
    )
    drain_s: float = Field(default=20, gt=0, le=600, description="Time that loops have to end after SIGTERM.")
    heartbeat_max_s: float = Field(
        default=300,
        ge=10,
        le=86_400,
        description="Age of a loop's last heartbeat above which /livez fails.",
    )
