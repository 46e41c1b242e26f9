"""The bootstrap of a policy as a command: the same steps as in the daemon, with progress, or only its plan."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from daemon.process.heartbeat import Pulse
from daemon.replica.copy_jobs.building import ignore_job
from daemon.replica.loop import build_projection, load_settings
from daemon.replica.policies import handler_policy, open_policy, require_policy
from daemon.sources.connections import CallMetrics
from handlers.files.copying.copies import Copier
from handlers.files.copying.pool import CopyPool
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.metastore.client import Metastore
from handlers.replication.loading.bootstrap import BootstrapResult, begin_bootstrap, is_pending
from handlers.replication.loading.bootstrap_plan import PlannedTable, plan_bootstrap
from handlers.replication.loading.table.tools import LoadTools
from handlers.replication.observer import SilentObserver


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.config.model import Config
    from handlers.files.copying.jobs import JobStatus
    from handlers.replication.loading.bootstrap_run import BootstrapProgress


def bootstrap_policy(
    config: Config,
    name: str,
    progress: BootstrapProgress | None = None,
    *,
    reuses_files: bool = False,
    job_changed: Callable[[JobStatus], None] = ignore_job,
) -> BootstrapResult:
    """Create the policy's replica, once, or continue an unfinished bootstrap; ``reuses_files`` as in ``begin_bootstrap``.

    Raises ConfigError for an unknown name, and what the bootstrap raises.
    """
    with open_policy(config, name) as found:
        begun = begin_bootstrap(
            source=found.source,
            target=found.target,
            policy=found.policy,
            store=found.store,
            reuses_files=reuses_files,
        )
        pending = is_pending(found.store)
    if pending:
        _load_tables(config, name, progress, job_changed)
    return begun


def _load_tables(
    config: Config,
    name: str,
    progress: BootstrapProgress | None,
    job_changed: Callable[[JobStatus], None],
) -> None:
    """Open the policy's projection, which loads the tables that wait."""
    projection, _ = build_projection(
        config, name, SilentObserver(), CallMetrics(CollectorRegistry()), Pulse(), progress, job_changed
    )
    with closing(projection):
        projection.open()


def plan_policy(config: Config, name: str, planned: Callable[[PlannedTable], None]) -> Sequence[PlannedTable]:
    """Return what a bootstrap of the policy would load; ``planned`` is called with each table. Changes nothing."""
    require_policy(config, name)
    settings = config.policy(name)
    with ExitStack() as stack:
        source = stack.enter_context(closing(Metastore(config.sources[settings.source].metastore)))
        target = stack.enter_context(closing(Metastore(config.targets[settings.target].metastore)))
        files = open_file_systems(config.files.all_options())
        roots = AllowedRoots.of(config.sources[settings.source].read_roots)
        copies = stack.enter_context(closing(CopyPool(Copier(files, roots), workers=1)))
        tools = LoadTools(
            policy=handler_policy(config, name),
            source=source,
            target=target,
            files=files,
            copies=copies,
            settings=load_settings(config),
            stopping=threading.Event(),
            beat=lambda: None,
        )
        tables = []
        for table in plan_bootstrap(tools):
            tables.append(table)
            planned(table)
    return tables
