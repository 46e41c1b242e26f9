"""From a policy's settings to the projection that keeps its replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.errors import ConfigError


if TYPE_CHECKING:
    from daemon.config import Config
    from daemon.metrics import Metrics
    from daemon.reporting import ProjectionPart
    from daemon.supervisor import Job


def build_replication(config: Config, name: str, metrics: Metrics) -> tuple[Job, ProjectionPart]:
    """Return the loop of policy ``name`` and what it tells."""
    del config, metrics
    raise ConfigError(
        "replication is not part of this build", hint="Remove the policy.", key=f"policies.{name}"
    )
