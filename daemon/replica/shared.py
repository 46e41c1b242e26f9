"""What the policies of a daemon share, so that a policy without work costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from daemon.sources.metastores import MetastoreClients


if TYPE_CHECKING:
    from daemon.config.model import Config
    from daemon.sources.connections import CallMetrics


@dataclass(frozen=True, slots=True)
class SharedResources:
    """Built once for all policies of a process; thread-safe. Opens nothing before it is used."""

    metastores: MetastoreClients

    @classmethod
    def of(cls, config: Config, calls: CallMetrics) -> Self:
        """Return what the policies of this configuration share; calls are counted in ``calls``."""
        return cls(MetastoreClients(config, calls))

    def close(self) -> None:
        """Release everything that no policy uses any more."""
        self.metastores.close()
