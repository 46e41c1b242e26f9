"""``tideline run`` and ``tideline relay``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

import click

from daemon.terminal.application import load_config
from daemon.terminal.options import config_option


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


def _run(config_path: Path | None, *, projections: bool) -> int:
    from daemon.config.load import find_file
    from daemon.service.lifecycle import run_daemon

    code = run_daemon(load_config(config_path), projections=projections, config_file=find_file(config_path))
    if code:
        _leave_behind(code)
    return code


def _leave_behind(code: int) -> NoReturn:
    """End without waiting for threads that did not end when they were told to."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
