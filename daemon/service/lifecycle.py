"""The process from start to end.

Order of the start: logs, lock, socket (what can fail for good, fails before anything else runs), loops, HTTP. Order of the end:
not ready, loops told to stop and given ``drain_s``, the last status written, HTTP closed, lock released. A loop that does not
end in time is left behind, and the exit code says so: state is safe at any moment, only work is repeated.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog

from daemon.catalog.loop import build_catalog
from daemon.flat.loop import build_flat
from daemon.flat.tables import FlatAnswers
from daemon.http.app import Views, build_app
from daemon.http.server import HttpServer, write_atomically
from daemon.keys.mining_loop import build_mining
from daemon.partitions.answers import PartitionAnswers
from daemon.process.lock import state_lock
from daemon.process.logs import LogSettings, configure_logs
from daemon.process.retry_policy import Backoff
from daemon.process.signals import stop_signals
from daemon.process.supervisor import Job, Supervisor
from daemon.relay.assembly import source_part
from daemon.replica.loop import build_replication
from daemon.service.metrics import Metrics
from daemon.status.client import STATUS_FILE
from daemon.status.collector import FlatPart, MiningPart, ProjectionPart, Reporter, SourcePart
from daemon.timelines.answers import TimelineAnswers


if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from daemon.config import Config
    from daemon.partitions.answers import PartitionView
    from daemon.status.model import DaemonStatus
    from daemon.timelines.answers import TimelineView


log = structlog.get_logger(__name__)

STATUS_FILE_S: Final = 15.0
"""How often the status is written down, if it changed, for the time after this process."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The loops and what they tell."""

    jobs: tuple[Job, ...]
    sources: tuple[SourcePart, ...]
    projections: tuple[ProjectionPart, ...]
    timelines: tuple[TimelineView, ...] = ()
    partitions: tuple[PartitionView, ...] = ()
    flats: tuple[FlatPart, ...] = ()
    mining: MiningPart | None = None


def build_parts(
    config: Config, metrics: Metrics, *, projections: bool, config_file: Path | None = None
) -> Parts:
    """Build from the settings; without ``projections`` only the relays. Opens no connection and no file.

    ``config_file`` is where the settings are from, for processes that read them themselves.
    """
    sources = [
        source_part(config, name, metrics)
        for name, source in config.sources.items()
        if projections or source.relay.enabled
    ]
    replicas = [build_replication(config, name, metrics) for name in config.policies] if projections else []
    catalogs = [build_catalog(config, name, metrics) for name in config.catalog] if projections else []
    flats = [
        build_flat(config, name, metrics, config_file)
        for name, flat in config.flat.items()
        if projections and flat.run and flat.is_written
    ]
    mining = build_mining(config, metrics, config_file) if projections and config.mining.every_s else None
    jobs = (
        *(job for job, _ in sources),
        *(job for job, _ in replicas),
        *(catalog.job for catalog in catalogs),
        *(job for job, _ in flats),
        *([] if mining is None else [mining[0]]),
    )
    return Parts(
        jobs,
        tuple(part for _, part in sources),
        (*(part for _, part in replicas), *(catalog.part for catalog in catalogs)),
        tuple(catalog.timelines for catalog in catalogs),
        tuple(catalog.partitions for catalog in catalogs if catalog.partitions is not None),
        tuple(part for _, part in flats),
        None if mining is None else mining[1],
    )


def run_daemon(config: Config, *, projections: bool = True, config_file: Path | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit code: 0 after an orderly end, 1 where a loop did not end in time.

    ``config_file`` is where ``config`` was read from, for the processes that the daemon starts.

    Raises ConfigError and StateLocked before anything has started. Main thread only.
    """
    configure_logs(LogSettings(config.logs.level, config.logs.format, config.logs.repeat_s, config.secrets()))
    with stop_signals() as asked, state_lock(config.state.dir):
        daemon = _Daemon(config, projections=projections, config_file=config_file)
        return daemon.run(asked)


class _Daemon:
    """Everything that runs, for the time that it does."""

    def __init__(self, config: Config, *, projections: bool, config_file: Path | None) -> None:
        self._config = config
        metrics = Metrics(self._status)
        parts = build_parts(config, metrics, projections=projections, config_file=config_file)
        rules = config.supervisor
        self._supervisor = Supervisor(
            parts.jobs,
            backoff=Backoff(rules.backoff_min_s, rules.backoff_max_s, rules.attempts_max),
            heartbeat_max_s=rules.heartbeat_max_s,
            measures=metrics,
        )
        self._reporter = Reporter(
            self._supervisor, parts.sources, parts.projections, parts.flats, parts.mining
        )
        self._flats = FlatAnswers(config, lambda: self._status().flats) if config.flat else None
        views = Views(
            self._status,
            self._supervisor.stuck,
            metrics.registry,
            config.http.lag_ready_s,
            TimelineAnswers(parts.timelines, self._newest) if parts.timelines else None,
            PartitionAnswers(parts.partitions, self._newest) if parts.partitions else None,
            self._flats,
        )
        self._http = HttpServer(build_app(views), config.http.host, config.http.port)
        self._written = _StatusFile(config.state.dir / STATUS_FILE)

    def _status(self) -> DaemonStatus:
        return self._reporter.status()

    def _newest(self, source: str) -> int | None:
        """Return the newest event id of a source, as of the last look at it."""
        return next((s.current_event_id for s in self._status().sources if s.name == source), None)

    def run(self, asked: threading.Event) -> int:
        """Start, wait to be asked to stop, drain."""
        self._supervisor.start()
        self._http.start(self._config.state.dir)
        self._reporter.state = "running"
        log.info(
            "running", http=f"{self._http.host}:{self._http.port}", loops=len(self._supervisor.statuses())
        )
        while not asked.wait(STATUS_FILE_S):
            self._written.write(self._reporter.status())
        return self._drain()

    def _drain(self) -> int:
        self._reporter.state = "stopping"
        log.info("stopping", drain_s=self._config.supervisor.drain_s)
        started_s = time.monotonic()
        left = self._supervisor.stop(self._config.supervisor.drain_s)
        self._reporter.state = "stopped"
        self._written.write(self._reporter.status())
        self._http.close()
        if self._flats is not None:
            self._flats.close()
        if left:
            log.error("loops did not end in time and are left behind", loops=left)
            return 1
        log.info("stopped", seconds=round(time.monotonic() - started_s, 3))
        return 0


class _StatusFile:
    """The status on disk; written when something but the time has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: DaemonStatus | None = None

    def write(self, status: DaemonStatus) -> None:
        timeless = replace(status, time_s=0.0)
        if timeless == self._last:
            return
        self._last = timeless
        try:
            write_atomically(self._path, status.to_json())
        except OSError as error:
            log.warning("the status could not be written down", path=str(self._path), problem=str(error))
