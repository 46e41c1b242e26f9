"""``tideline run``, ``relay`` and ``bootstrap``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from daemon.terminal.options import config_option, echo_json, json_option


if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@config_option
@click.pass_context
def run(ctx: click.Context, config_path: Path | None) -> None:
    """Run the daemon: relays, projections and the drivers of flat tables, until SIGTERM.

    The first SIGTERM or SIGINT drains for supervisor.drain_s at most and exits with 0; the second exits with 1 at once.
    """
    ctx.exit(_run(config_path, projections=True))


@click.command()
@config_option
@click.pass_context
def relay(ctx: click.Context, config_path: Path | None) -> None:
    """Publish the sources' notification logs to their topics, and do nothing else."""
    ctx.exit(_run(config_path, projections=False))


@click.command()
@click.argument("policy")
@config_option
@json_option
def bootstrap(policy: str, config_path: Path | None, as_json: bool) -> None:
    """Make the replica of POLICY, once, before the daemon follows it. Doing it again changes nothing."""
    from dataclasses import asdict

    from daemon.config import find_file, load_config
    from daemon.process.lock import state_lock
    from daemon.replica.loop import bootstrap_policy

    config = load_config(find_file(config_path))
    with state_lock(config.state.dir):
        done = bootstrap_policy(config, policy)
    if as_json:
        echo_json(asdict(done))
    else:
        before = "had been bootstrapped before; it" if done.repeated else "is bootstrapped and"
        click.echo(f"policy {policy} {before} follows from event {done.event_id}")


def _run(config_path: Path | None, *, projections: bool) -> int:
    from daemon.config import find_file, load_config
    from daemon.service.lifecycle import run_daemon

    path = find_file(config_path)
    code = run_daemon(load_config(path), projections=projections, config_file=path)
    if code:
        _leave_behind(code)
    return code


def _leave_behind(code: int) -> NoReturn:
    """End without waiting for threads that did not end when they were told to."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
