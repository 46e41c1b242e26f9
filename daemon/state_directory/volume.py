"""Metrics of the volume of the state directory, so that an alert can fire before a write fails.

Without free space, the daemon cannot record positions, and all loops wait. The metrics show the free space of
the volume, not the size of the directory, because other users of the volume need space as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class VolumeCollector(Collector):
    """Queries the file system at each scrape. If that fails, the metrics have no sample."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        """Yield both metric families, even without samples."""
        size = GaugeMetricFamily("tideline_state_volume_size_bytes", "Size of the volume of state.dir.")
        free = GaugeMetricFamily(
            "tideline_state_volume_free_bytes",
            "Bytes that the daemon can still write to the volume of state.dir.",
        )
        try:
            found = os.statvfs(self._directory)
        except OSError:
            pass
        else:
            size.add_metric((), found.f_blocks * found.f_frsize)
            free.add_metric((), found.f_bavail * found.f_frsize)
        yield size
        yield free
