"""Settings of the process itself: its state, its port, its logs, copying of files, and restarts.

All have defaults that suit a daemon on a machine of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from daemon.config.fields import Name, Options, Secret
from daemon.config.section import Section


class StateConfig(Section):
    """The state that the daemon keeps."""

    dir: Path = Field(
        default=Path("/var/lib/tideline"),
        description="Directory of positions and state, on a local disk. Only one daemon may use it.",
    )


class HttpConfig(Section):
    """Probes, metrics and the status page; read-only, without secrets."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on; 0.0.0.0 for all.")
    port: int = Field(
        default=8470,
        ge=0,
        le=65535,
        description="Port. 0 chooses a free one, which is written to <state.dir>/http.json.",
    )
    lag_ready_s: float = Field(
        default=300, gt=0, description="Lag above which /readyz reports that the daemon is not ready."
    )


class LogsConfig(Section):
    """What is written to standard output."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level that is written."
    )
    format: Literal["auto", "json", "console"] = Field(
        default="auto", description="'auto' is 'console' on a terminal and 'json' elsewhere."
    )
    repeat_s: float = Field(
        default=60,
        ge=0,
        description="How long a repeated warning or error is counted instead of written; 0 writes every one.",
    )


class FilesConfig(Section):
    """Copying of files between the clusters."""

    copy_workers: int = Field(
        default=8, ge=1, le=256, description="Files copied at the same time for each policy."
    )
    options: dict[Name, Options] = Field(
        default={},
        description="Settings by file system scheme, under their own names: those of pyarrow for s3a, gs and abfs, those of Hadoop "
        "for hdfs and viewfs.",
    )
    secrets: dict[Name, dict[str, Secret]] = Field(
        default={},
        description="Secret settings by scheme, such as secret_key: {file: PATH} or {env: NAME}.",
    )

    def all_options(self) -> dict[str, dict[str, object]]:
        """Return options and secrets together, by scheme."""
        merged: dict[str, dict[str, object]] = {scheme: dict(given) for scheme, given in self.options.items()}
        for scheme, secrets in self.secrets.items():
            known = {key: secret.get_secret_value() for key, secret in secrets.items()}
            merged.setdefault(scheme, {}).update(known)
        return merged


class SupervisorConfig(Section):
    """Restarts of loops, and the end of the process."""

    backoff_min_s: float = Field(default=0.5, gt=0, le=60, description="Shortest delay before a restart.")
    backoff_max_s: float = Field(default=60, gt=0, le=3600, description="Longest delay before a restart.")
    attempts_max: int = Field(
        default=8,
        ge=1,
        le=1000,
        description="Consecutive failures after which a loop whose request the other side refuses counts as failed.",
    )
    failed_retry_s: float = Field(
        default=300,
        ge=1,
        le=86_400,
        description="Longest delay before a loop that needs an operator is tried again, in case its cause is gone.",
    )
    drain_s: float = Field(default=20, gt=0, le=600, description="Time that loops have to end after SIGTERM.")
    heartbeat_max_s: float = Field(
        default=300, ge=10, description="Age of a loop's last heartbeat above which /livez fails."
    )
