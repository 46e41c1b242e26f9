"""``tideline status`` and ``tideline version``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from daemon.status.address import daemon_option
from daemon.terminal.application import (
    application,
    config_option,
    echo_json,
    json_option,
    load_config,
    print_text,
)


if TYPE_CHECKING:
    from pathlib import Path

    from daemon.status.address import DaemonAddress


@click.command()
@config_option
@json_option
@daemon_option
@click.option(
    "--all",
    "shows_all",
    is_flag=True,
    help="Show every projection; by default, of more than 20 only those that deviate.",
)
@click.pass_context
def status(
    ctx: click.Context,
    config_path: Path | None,
    as_json: bool,
    daemon: DaemonAddress | None,
    shows_all: bool,
) -> None:
    """Show positions, lags and problems of the daemon.

    Queries the running daemon. If none is running, shows the last recorded status and exits with 1.
    """
    from daemon.status.client import fetch_status, load_status
    from daemon.status.text import status_text

    sections = application().status_sections()
    if daemon is not None:
        report = fetch_status(daemon, sections)
    else:
        state_dir = load_config(config_path).state.dir
        report = load_status(state_dir, sections)
    if as_json:
        echo_json(report.to_json())
    else:
        print_text(status_text(report, sections, shows_all=shows_all))
    ctx.exit(1 if report.state == "stopped" else 0)


@click.command()
@json_option
def version(as_json: bool) -> None:
    """Print the version."""
    from daemon.terminal.application import version_text

    if as_json:
        echo_json({"version": version_text()})
    else:
        print_text(f"tideline {version_text()}")
