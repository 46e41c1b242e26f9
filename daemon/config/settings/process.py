"""Settings of the process itself: its state, its port, its logs, copying of files, and restarts.

All have defaults that suit a daemon on a machine of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from daemon.config.fields import Name, Options, Secret
from daemon.config.section import Section, setting
from daemon.process.logs import LogSettings
from daemon.process.retry_policy import FAILED_RETRY, RestartPolicy
from handlers.files.copying.pool import WORKERS_DEFAULT


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

    level: Literal["debug", "info", "warning", "error"] = setting(LogSettings, "level")
    format: Literal["auto", "json", "console"] = setting(LogSettings, "format")
    repeat_s: float = setting(LogSettings, "repeat_s")


class FilesConfig(Section):
    """Copying of files between the clusters."""

    copy_workers: int = Field(
        default=WORKERS_DEFAULT, ge=1, le=256, description="Files copied at the same time for each policy."
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
