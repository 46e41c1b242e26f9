"""Clients of the configuration's metastores that share connections.

There is one pool for each metastore service, identified by its addresses, which determine the login as well.
A source and a target with the same addresses share a pool, with the larger of their limits. All clients count
and measure their calls under the name of their cluster.
"""

from __future__ import annotations

from collections.abc import Callable

from daemon.config.model import Config
from daemon.config.settings.clusters import SourceConfig, TargetConfig
from daemon.sources.connections import CallMetrics, measured_metastore
from handlers.metastore.client import Metastore
from handlers.metastore.connection_pool import ConnectionPool


def ignore_beat() -> None:
    """Do nothing after an answered call."""


class MetastoreClients:
    """Provides clients that share connection pools. Connects at the first call. Thread-safe."""

    def __init__(self, config: Config, calls: CallMetrics) -> None:
        self._config = config
        self._calls = calls
        clusters: list[SourceConfig | TargetConfig] = [*config.sources.values(), *config.targets.values()]
        limits: dict[tuple[str, ...], int] = {}
        for cluster in clusters:
            uris = tuple(cluster.metastore)
            limits[uris] = max(limits.get(uris, 1), cluster.connections_max)
        self._pools = {uris: ConnectionPool(uris, connections_max=limit) for uris, limit in limits.items()}

    def source(self, name: str, beat: Callable[[], None] = ignore_beat) -> Metastore:
        """Return a client of a source; call ``beat`` after every answered call."""
        return self._client(name, self._config.sources[name], beat)

    def target(self, name: str, beat: Callable[[], None] = ignore_beat) -> Metastore:
        """Return a client of a target; call ``beat`` after every answered call."""
        return self._client(name, self._config.targets[name], beat)

    def _client(self, name: str, cluster: SourceConfig | TargetConfig, beat: Callable[[], None]) -> Metastore:
        return measured_metastore(self._calls, name, beat)(self._pools[tuple(cluster.metastore)])

    def close(self) -> None:
        """Close the connections that are not in use."""
        for pool in self._pools.values():
            pool.close_idle()
