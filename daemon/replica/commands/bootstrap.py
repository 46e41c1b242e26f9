"""``tideline bootstrap``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from daemon.terminal.application import config_option, echo, echo_json, json_option, load_config
from daemon.terminal.layout import StatusLine


if TYPE_CHECKING:
    from pathlib import Path

    from daemon.config.model import Config


@click.command()
@click.argument("policy")
@click.option("--dry-run", is_flag=True, help="Show what would be loaded, and change nothing.")
@click.option("--gap", is_flag=True, help="Skip events that were lost, and load all tables again instead.")
@click.option(
    "--reuse-files", is_flag=True, help="Replace the tables of the target, and copy only files that differ."
)
@click.option("--yes", is_flag=True, help="Replace the tables without asking.")
@config_option
@json_option
def bootstrap(  # noqa: PLR0913 - click passes one argument for each option
    policy: str,
    config_path: Path | None,
    *,
    dry_run: bool,
    gap: bool,
    reuse_files: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Create the replica of POLICY, once, before the daemon follows it, and load the tables that the source has.

    Writers of the source continue meanwhile. A bootstrap that was interrupted continues with the tables that are not loaded yet.
    Repeating it after its end changes nothing. While the daemon runs, it bootstraps policies with 'bootstrap: auto' itself.

    With --gap, a policy that stopped at a gap continues after the newest event of the source, and all its tables are loaded again.

    With --reuse-files, the target database may have tables, as the old source has after a failover. They are replaced by those of the
    source, and rows that only the target has are lost. Files that are equal on both sides are kept.
    """
    config = load_config(config_path)
    if reuse_files and (gap or dry_run):
        raise click.UsageError("--reuse-files excludes --gap and --dry-run")
    if as_json and reuse_files and not yes:
        raise click.UsageError("--json with --reuse-files needs --yes, because it cannot ask")
    if gap:
        if dry_run:
            raise click.UsageError("--gap and --dry-run exclude each other")
        _cross_gap(config, policy, as_json=as_json)
    elif dry_run:
        _show_plan(config, policy, as_json=as_json)
    else:
        if reuse_files and not yes:
            click.confirm(
                "Replace the tables of the target database, and lose rows that only they have?", abort=True
            )
        _bootstrap(config, policy, reuses_files=reuse_files, as_json=as_json)


def _cross_gap(config: Config, policy: str, *, as_json: bool) -> None:
    from daemon.replica.policies import require_policy
    from daemon.replica.requests import cross_gap_of

    require_policy(config, policy)
    answer = cross_gap_of(config, policy)
    echo(
        answer,
        as_json,
        lambda done: (
            f"policy {policy}: events {done['after'] + 1} to {done['upto']} are skipped, and {len(done['tables'])} tables will be "
            "loaded; see 'tideline status'"
        ),
    )


def _bootstrap(config: Config, policy: str, *, reuses_files: bool, as_json: bool) -> None:
    from daemon.process.lock import state_lock
    from daemon.replica.bootstrap_progress import CountingProgress
    from daemon.replica.commands.bootstrap_run import bootstrap_policy

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
    state = "was already bootstrapped" if done.repeated else "is bootstrapped"
    click.echo(f"policy {policy} {state}; replication continues after event {done.event_id}")
    if done.repeated:
        click.echo("Nothing was loaded. To start over, see docs/OPERATIONS.md#bootstrapping-a-policy-again.")
    if progress.tables:
        click.echo(progress.line())
    for table, problem in progress.problems.items():
        click.echo(f"{table}: {problem}", err=True)


def _show_plan(config: Config, policy: str, *, as_json: bool) -> None:
    from daemon.replica.commands.bootstrap_run import plan_policy
    from daemon.replica.commands.text import plan_text

    line = StatusLine(quiet=as_json)
    tables = plan_policy(config, policy, lambda table: line.show(f"reading {table.table}"))
    line.clear()
    if as_json:
        echo_json({"policy": policy, "tables": [asdict(table) for table in tables]})
    else:
        click.echo(plan_text(tables))
