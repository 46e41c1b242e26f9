"""``tideline bootstrap``: the same steps as in the daemon, with progress, or only their plan.

A running daemon bootstraps the policy itself, on request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict
from pathlib import Path

import click
from prometheus_client import CollectorRegistry

from daemon.config.model import Config
from daemon.process.loops.heartbeat import Pulse
from daemon.replica.copy_jobs.policy_jobs import ignore_job
from daemon.replica.loading.bootstrap_progress import CountingProgress
from daemon.replica.loop import bootstrap_options, build_projection, load_settings
from daemon.replica.policies import (
    database_directories,
    handler_policy,
    named_directories,
    open_policy,
    require_policy,
)
from daemon.replica.requests import open_requests
from daemon.replica.shared import SharedResources
from daemon.sources.connections import CallMetrics
from daemon.state_directory.directory import state_lock
from daemon.status.address import DaemonAddress, daemon_option
from daemon.status.client import find_daemon
from daemon.terminal.application import config_option, echo_json, json_option, load_config, print_text
from daemon.terminal.layout import StatusLine, bytes_text, number_text, table_text
from handlers.files.copying.copies import Copier
from handlers.files.copying.jobs import JobStatus
from handlers.files.copying.pool import CopyPool
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.metastore.client import Metastore
from handlers.replication.loading.bootstrap import BootstrapResult, begin_bootstrap, is_pending
from handlers.replication.loading.bootstrap_plan import PlannedTable, plan_bootstrap
from handlers.replication.loading.bootstrap_run import BootstrapProgress
from handlers.replication.loading.table.tools import LoadTools
from handlers.replication.observer import SilentObserver
from state.errors import NotFound
from state.value_text import count_text


@click.command()
@click.argument("policy")
@click.option("--dry-run", is_flag=True, help="Show the tables to load, and change nothing.")
@click.option(
    "--reuse-files", is_flag=True, help="Replace the tables of the target, copying only files that differ."
)
@click.option("--yes", is_flag=True, help="Replace the tables without confirmation.")
@config_option
@json_option
@daemon_option
def bootstrap(  # noqa: PLR0913 - click passes one argument for each option
    policy: str,
    config_path: Path | None,
    *,
    dry_run: bool,
    reuse_files: bool,
    yes: bool,
    as_json: bool,
    daemon: DaemonAddress | None,
) -> None:
    """Create the replica of POLICY, once, and load the tables that the source has.

    Writers of the source continue in the meantime. An interrupted bootstrap continues with the remaining
    tables. Repeating a finished one changes nothing.

    If a daemon runs, it bootstraps the policy, and the command does not wait: see 'tideline status' for the
    progress, and 'tideline wait --replica POLICY' for the end. The daemon bootstraps policies with
    'bootstrap: auto' without this command.

    With --reuse-files, the target database may have tables, as the old source has after a failover. Those of
    the source replace them, and rows that only the target has are lost. Files that are equal on both sides
    stay.
    """
    if reuse_files and dry_run:
        raise click.UsageError("--reuse-files excludes --dry-run")
    if daemon is not None and dry_run:
        raise click.UsageError(
            "--dry-run excludes --url: it lists all files of the source, which may take longer than a "
            f"request. Run 'tideline bootstrap {policy} --dry-run' with the configuration file, such as in "
            "the daemon's container, where it works while the daemon runs"
        )
    if as_json and reuse_files and not yes:
        raise click.UsageError("--json with --reuse-files needs --yes, because it cannot prompt")
    if dry_run:
        _show_plan(load_config(config_path), policy, as_json=as_json)
        return
    if reuse_files and not yes:
        click.confirm(
            "Replace the tables of the target database, and lose rows that only they have?", abort=True
        )
    if daemon is None:
        config = load_config(config_path)
        if find_daemon(config.state.dir) is None:
            _bootstrap(config, policy, reuses_files=reuse_files, as_json=as_json)
            return
    done = open_requests(config_path, daemon, policy)({"do": "bootstrap", "reuse_files": reuse_files})
    if as_json:
        echo_json(done)
    else:
        print_text(
            f"the daemon bootstraps policy {policy}: see 'tideline status {policy}' for the progress, and "
            f"'tideline wait --replica {policy}' for the end"
        )


def _bootstrap(config: Config, policy: str, *, reuses_files: bool, as_json: bool) -> None:

    line = StatusLine(quiet=as_json)
    progress = CountingProgress(line.show)
    with state_lock(config.state.dir):
        try:
            done = bootstrap_policy(
                config, policy, progress, reuses_files=reuses_files, job_changed=progress.show_job
            )
        finally:
            line.clear()
    if as_json:
        loaded = {"loaded": progress.loaded, "files": progress.files, "size_bytes": progress.size_bytes}
        echo_json(asdict(done) | loaded | {"failed": progress.problems})
        return
    state = "is already bootstrapped" if done.repeated else "is bootstrapped"
    print_text(f"policy {policy} {state}; replication continues after event {done.event_id}")
    if done.repeated:
        print_text(
            "Nothing was loaded. To start over, see docs/guides/policies.md#bootstrapping-a-policy-again."
        )
    if progress.tables:
        print_text(progress.line())
    for table, problem in progress.problems.items():
        print_text(f"{table}: {problem}", err=True)


def bootstrap_policy(
    config: Config,
    name: str,
    progress: BootstrapProgress | None = None,
    *,
    reuses_files: bool = False,
    job_changed: Callable[[JobStatus], None] = ignore_job,
) -> BootstrapResult:
    """Create the policy's replica, once, or continue an unfinished bootstrap; ``reuses_files`` as in
    ``begin_bootstrap``.

    Raises ConfigError for an unknown name, and the errors of the bootstrap.
    """
    with open_policy(config, name) as opened:
        begun = begin_bootstrap(
            source=opened.source,
            target=opened.target,
            policy=opened.policy,
            store=opened.store,
            reuses_files=reuses_files,
        )
        pending = is_pending(opened.store)
    if pending:
        _load_tables(config, name, progress, job_changed)
    return begun


def _load_tables(
    config: Config,
    name: str,
    progress: BootstrapProgress | None,
    job_changed: Callable[[JobStatus], None],
) -> None:
    """Load the tables that wait, with the policy's projection."""
    pulse = Pulse()
    options = bootstrap_options(config, name, pulse, progress=progress)
    shared = SharedResources.of(config, CallMetrics(CollectorRegistry()))
    projection, _ = build_projection(config, name, SilentObserver(), shared, pulse, options, job_changed)
    with closing(shared), closing(projection):
        projection.open()


def _show_plan(config: Config, policy: str, *, as_json: bool) -> None:
    line = StatusLine(quiet=as_json)
    tables = plan_policy(config, policy, lambda table: line.show(f"reading {table.table}"))
    line.clear()
    if as_json:
        echo_json({"policy": policy, "tables": [asdict(table) for table in tables]})
    else:
        print_text(plan_text(tables))


def plan_policy(config: Config, name: str, planned: Callable[[PlannedTable], None]) -> Sequence[PlannedTable]:
    """Return the plan of the policy's bootstrap; call ``planned`` with each table. Changes nothing."""
    require_policy(config, name)
    settings = config.policy(name)
    with ExitStack() as stack:
        source = stack.enter_context(closing(Metastore(config.sources[settings.source].metastore)))
        target = stack.enter_context(closing(Metastore(config.targets[settings.target].metastore)))
        policy = handler_policy(config, name)
        files = open_file_systems(config.files.all_options(), named_directories(policy))
        with suppress(NotFound):
            files.trust(database_directories(target.get_database(policy.target_db)))
        roots = AllowedRoots.of(config.sources[settings.source].read_roots)
        copies = stack.enter_context(closing(CopyPool(Copier(files, roots), workers=1)))
        tools = LoadTools(
            policy=policy,
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


def plan_text(tables: Sequence[PlannedTable]) -> str:
    """Return a row for each table that a bootstrap would load, and the sums."""
    if not tables:
        return "there is nothing to load"
    header = ("TABLE", "KIND", "PARTITIONS", "FILES", "BYTES", "OPEN TRANSACTIONS")
    rows = [
        (
            table.table,
            table.kind if table.reason is None else f"{table.kind} ({table.reason})",
            number_text(table.partitions),
            number_text(table.files),
            bytes_text(table.size_bytes),
            ", ".join(map(str, table.open_transactions)) or "-",
        )
        for table in tables
    ]
    files, size_bytes = sum(table.files for table in tables), sum(table.size_bytes for table in tables)
    sums = f"{count_text(len(tables), 'table')}, {count_text(files, 'file')}, {bytes_text(size_bytes)}"
    waits = len({txn_id for table in tables for txn_id in table.open_transactions})
    tail = f"; the bootstrap would wait for {count_text(waits, 'open transaction')}" if waits else ""
    return f"{table_text(header, rows)}\n{sums}{tail}"
