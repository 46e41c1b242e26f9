"""Starts and ends the process of the daemon.

Start. Every step that can fail permanently runs before the first loop:

1. configure logs;
2. handle signals, lock the state directory, and raise the limit of descriptors;
3. build the parts, and bind the HTTP sockets;
4. start the loops, then the HTTP listeners.

End, on the first SIGTERM or SIGINT:

1. report not ready, and end the HTTP requests that wait;
2. stop the loops, and wait for them for at most ``drain_s``;
3. write the last status;
4. close the HTTP listeners and the open resources of the parts;
5. release the lock.

If a loop does not end in time, the process exits without it and with code 1. The durable state is consistent
at any time, so the next start only repeats some work.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import structlog

from daemon.capability import Parts, Runtime
from daemon.consumer.metrics import ProjectionMetrics
from daemon.dead_letters.routes import dead_letter_routes
from daemon.http.actions import Audit, audit_route
from daemon.http.metrics import HttpMetrics
from daemon.http.openapi import described
from daemon.http.probes.listener import ProbeAnswers, ProbesListener
from daemon.http.site import Site
from daemon.process.descriptors import raise_limit
from daemon.process.garbage import shorten_pauses
from daemon.process.logs import LogSettings, configure_logs
from daemon.process.loops.loop import Job
from daemon.process.loops.retry_policy import FAILED_RETRY, RestartPolicy
from daemon.process.loops.supervisor import Supervisor
from daemon.process.metrics import POLICIES_MAX, LoopMetrics, PolicySeries, build_registry
from daemon.process.redaction import redactor, use_secrets
from daemon.process.signals import stop_signals
from daemon.service.capabilities import CAPABILITIES, all_sections
from daemon.service.configuration_page import configuration_page, configuration_route
from daemon.service.division import select_share
from daemon.service.event_pages import event_pages
from daemon.service.log_page import log_page
from daemon.site.routes import site_routes
from daemon.sources.connections import CallMetrics
from daemon.sources.shared_readers import SharedReaders
from daemon.state_directory.directory import STATUS_FILE, state_lock, write_atomically
from daemon.state_directory.keeper import LOOP, StateKeeper
from daemon.state_directory.private_files import report_wide_files
from daemon.state_directory.volume import VolumeCollector
from daemon.status.history import History
from daemon.status.metrics import StatusCollector
from daemon.status.reporter import StatusReporter
from daemon.status.routes import Views, status_routes
from daemon.waits.metrics import WaitMetrics
from daemon.waits.routes import wait_route
from daemon.waits.waits import Waits
from handlers.failures import Backoff
from state.errors import ConfigError


if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from prometheus_client import CollectorRegistry

    from daemon.config.document import Problem
    from daemon.config.model import Config
    from daemon.status.model import DaemonStatus, StatusSection


log = structlog.get_logger(__name__)

LOCK_WAIT_S: Final = 10.0
"""How long another process may hold the state directory at the start: a command that found no daemon, such as
``tideline pause``, holds it for a moment."""
STATUS_FILE_S: Final = 15.0
"""How often to write the status to a file, if it has changed. Commands read the file while no daemon runs."""
STATUS_COST: Final = 400
"""The largest part of the time that writing the file may take, so the status of hundreds of policies is
written less often.
"""

SWITCH_S: Final = 0.0005
"""How long a thread computes before Python switches to another one.

Each statement of a store and each operation on a socket releases the interpreter, and gets it back only after
this time if another thread computes. With Python's 5 ms, forty statements of a catalog waited until a million
names were decoded, and accepting a storm of connections took 1.4 s instead of 0.1 s next to a busy thread.
"""


def run_daemon(
    config: Config,
    *,
    projections: bool = True,
    config_file: Path | None = None,
    warnings: Sequence[Problem] = (),
) -> int:
    """Run until SIGTERM or SIGINT; return the exit code: 0 if all loops ended in time, otherwise 1.

    ``config_file`` is the file of ``config``; child processes read it. ``warnings`` of the configuration are
    logged.

    Raises ConfigError and StateLocked before anything has started. Main thread only.
    """
    # Start 1.
    use_secrets(config.secrets())
    configure_logs(LogSettings(config.logs.level, config.logs.format, config.logs.repeat_s, config.secrets()))
    for warning in warnings:
        log.warning(
            "configuration",
            place=warning.place,
            setting=warning.key,
            problem=warning.reason,
            hint=warning.hint,
        )
    # Start 2. Leaving the block is step 5 of the end.
    with stop_signals() as stop_requested, state_lock(config.state.dir, LOCK_WAIT_S):
        raise_limit()
        shorten_pauses()
        sys.setswitchinterval(SWITCH_S)
        report_wide_files(config.state.dir)
        daemon = _Daemon(config, projections=projections, config_file=config_file)
        return daemon.run(stop_requested)


class _Daemon:
    """The loops, the HTTP listeners and the status file of one run."""

    def __init__(self, config: Config, *, projections: bool, config_file: Path | None) -> None:
        # Start 3.
        self._config = config = select_share(config)
        sections = all_sections()
        registry = process_registry(self._status, sections, config.metrics.policies_max)
        registry.register(VolumeCollector(config.state.dir))
        loops = LoopMetrics(registry, PolicySeries(config.metrics.policies_max))
        self._waits = waits = Waits(config.http.waits_max, WaitMetrics(registry))
        self._audit = Audit(config.state.dir)
        runtime = Runtime(
            config=config,
            config_file=config_file,
            registry=registry,
            calls=CallMetrics(registry),
            readers=SharedReaders(config, waits.moved),
            projections=ProjectionMetrics(registry, loops),
            status=self._status,
            sections=sections,
            waits=waits,
            relays_only=not projections,
            start_job=self._start_job,
            audit=self._audit,
        )
        parts = build_parts(runtime)
        if not parts.jobs:
            raise _nothing_to_run(config_file)
        rules = config.supervisor
        self._supervisor = Supervisor(
            [*parts.jobs, Job(LOOP, StateKeeper(config.state.dir).run)],
            backoff=RestartPolicy(
                rules.backoff_min_s,
                rules.backoff_max_s,
                rules.attempts_max,
                Backoff(min(FAILED_RETRY.min_s, rules.failed_retry_s), rules.failed_retry_s),
            ),
            heartbeat_max_s=rules.heartbeat_max_s,
            measures=loops,
        )
        self._reporter = StatusReporter(
            self._supervisor, parts.sources, parts.projections, parts.sections, parts.later_projections
        )
        self._close = parts.close
        views = Views(self._status, self._supervisor.stuck, registry, config.http.lag_ready_s, sections)
        own_routes = (
            audit_route(runtime.audit),
            configuration_route(config),
            wait_route(waits, parts.wait_kinds),
            *dead_letter_routes(config, runtime.audit),
        )
        routes = described([*status_routes(views), *own_routes, *parts.routes])
        routes += event_pages(config, runtime.readers)
        routes += [log_page(), configuration_page(config, config_file)]
        self._history = History(config.state.dir, sections)
        pages = site_routes(self._status, sections, routes, lambda: self._history.points, runtime.audit.last)
        refusals = HttpMetrics(registry)
        self._site = Site(config.http, pages, refusals.refused_by("site"))
        self._probes = ProbesListener(
            config.http,
            LogSettings(config.logs.level, config.logs.format),
            ProbeAnswers(self._supervisor.deadlines, views.answer_ready, views.make_metrics),
            refusals.refused_by("probes"),
        )
        self._status_file = _StatusFile(config.state.dir / STATUS_FILE)

    def _status(self) -> DaemonStatus:
        """Return the status with secrets masked, because it contains texts of other systems."""
        return redactor().texts(self._reporter.status())

    def _start_job(self, job: Job) -> None:
        self._supervisor.add(job)

    def run(self, stop_requested: threading.Event) -> int:
        """Start, wait until a stop request, then stop; return the exit code."""
        # Start 4.
        self._history.load()
        self._audit.load()
        self._supervisor.start()
        self._probes.start()
        self._site.start(self._config.state.dir, (self._probes.host, self._probes.port))
        self._reporter.state = "running"
        log.info(
            "running",
            http=self._site.address,
            probes=self._probes.address,
            loops=len(self._supervisor.statuses()),
        )
        rest_s = STATUS_FILE_S
        while not stop_requested.wait(rest_s):
            began_s = time.thread_time()
            status = self._status()
            self._status_file.write(status)
            self._history.take(status)
            rest_s = max(STATUS_FILE_S, STATUS_COST * (time.thread_time() - began_s))
        return self._stop()

    def _stop(self) -> int:
        # End 1.
        self._reporter.state = "stopping"
        self._waits.close()
        log.info("stopping", drain_s=self._config.supervisor.drain_s)
        started_s = time.monotonic()
        # End 2.
        running = self._supervisor.stop(self._config.supervisor.drain_s)
        # End 3.
        self._reporter.state = "stopped"
        status = self._status()
        self._status_file.write(status)
        self._history.write(status.time_s)
        # End 4.
        self._site.close()
        self._probes.close()
        for close in self._close:
            close()
        if running:
            log.error("loops did not end in time; exiting without them", loops=running)
            return 1
        log.info("stopped", seconds=round(time.monotonic() - started_s, 3))
        return 0


def _nothing_to_run(config_file: Path | None) -> ConfigError:
    """Return the error for a configuration without loops: the daemon would report ready and do nothing."""
    return ConfigError(
        "the configuration contains nothing to run",
        file=str(config_file or "none"),
        hint="Name the right file with --config, or add 'sources' or 'flat'; docs/CONFIG.md has an example.",
    )


class _StatusFile:
    """The file with the last status, written when more than the time has changed."""

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
            log.warning("the status file cannot be written", path=str(self._path), problem=str(error))


def process_registry(
    status: Callable[[], DaemonStatus],
    sections: Sequence[StatusSection[Any]],
    policies_max: int = POLICIES_MAX,
) -> CollectorRegistry:
    """Return the registry with the collectors of the status and of the operating system's process metrics.

    Names start with ``tideline_`` and end with their base unit. Labels are names from the configuration,
    event types and error codes, of which there are few. Table names are not labels, because there may be a
    million. The number of quarantined tables is a metric; their names are in ``/api/v1/status``.
    docs/METRICS.md lists every metric, and a test compares the two.
    """
    registry = build_registry()
    registry.register(StatusCollector(status, sections, policies_max))
    return registry


def build_parts(runtime: Runtime) -> Parts:
    """Return the parts of all capabilities; opens no connection and no file."""
    parts = [capability.build(runtime) for capability in CAPABILITIES]

    def join(field: Callable[[Parts], Sequence[Any]]) -> tuple[Any, ...]:
        return tuple(chain.from_iterable(map(field, parts)))

    return Parts(
        jobs=join(lambda part: part.jobs),
        sources=join(lambda part: part.sources),
        projections=join(lambda part: part.projections),
        later_projections=join(lambda part: part.later_projections),
        sections=join(lambda part: part.sections),
        routes=join(lambda part: part.routes),
        wait_kinds=join(lambda part: part.wait_kinds),
        close=join(lambda part: part.close),
    )
