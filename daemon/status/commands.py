"""``tideline status`` and ``tideline version``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

import click

from daemon.config.quantities import Quantity
from daemon.status.address import daemon_option
from daemon.terminal.application import (
    application,
    config_option,
    echo_json,
    json_option,
    load_config,
    print_text,
)
from state.errors import TidelineError


if TYPE_CHECKING:
    from pathlib import Path

    from daemon.status.address import DaemonAddress
    from daemon.status.model import DaemonStatus


LAG_MAX_S: Final = 300.0


@click.command()
@config_option
@json_option
@daemon_option
@click.option("--problems", "only_problems", is_flag=True, help="Show only what is wrong.")
@click.option(
    "--check",
    "checks",
    is_flag=True,
    help="Print one line for a monitoring system. Exit codes: 0 ok, 1 behind or not following, 2 not running "
    "or needs an operator, 3 unknown.",
)
@click.option(
    "--lag-max",
    "lag_max_s",
    type=Quantity("s"),
    default=LAG_MAX_S,
    show_default=True,
    help="Lag above which --check exits with 1, in seconds or as 5m.",
)
@click.option(
    "--all",
    "shows_all",
    is_flag=True,
    help="Show every projection; by default, of more than 20 only those that deviate.",
)
@click.pass_context
def status(  # noqa: PLR0913 - click passes one argument for each option
    ctx: click.Context,
    config_path: Path | None,
    *,
    as_json: bool,
    daemon: DaemonAddress | None,
    only_problems: bool,
    checks: bool,
    lag_max_s: float,
    shows_all: bool,
) -> None:
    """Show what needs an operator, problems, positions and lags of the daemon.

    Queries the running daemon. If none is running, shows the last recorded status and exits with 1.
    """
    from daemon.status.text import problems_text, status_text

    sections = application().status_sections()
    if checks:
        _check(ctx, config_path, daemon, lag_max_s)
    report = _load(config_path, daemon)
    if as_json:
        echo_json(report.to_json())
    elif only_problems:
        print_text(problems_text(report, sections))
    else:
        print_text(status_text(report, sections, shows_all=shows_all))
    ctx.exit(1 if report.state == "stopped" else 0)


def _load(config_path: Path | None, daemon: DaemonAddress | None) -> DaemonStatus:
    from daemon.status.client import fetch_status, load_status

    sections = application().status_sections()
    if daemon is not None:
        return fetch_status(daemon, sections)
    return load_status(load_config(config_path).state.dir, sections)


def _check(
    ctx: click.Context, config_path: Path | None, daemon: DaemonAddress | None, lag_max_s: float
) -> NoReturn:
    from daemon.status.health_check import check_status, unknown_status

    try:
        checked = check_status(_load(config_path, daemon), application().status_sections(), lag_max_s)
    except TidelineError as error:
        checked = unknown_status(error)
    print_text(checked.line)
    ctx.exit(checked.exit_code)


@click.command()
@json_option
def version(as_json: bool) -> None:
    """Print the version."""
    from daemon.terminal.application import version_text

    if as_json:
        echo_json({"version": version_text()})
    else:
        print_text(f"tideline {version_text()}")
