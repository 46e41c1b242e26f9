"""``tideline status`` and ``tideline version``."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
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
    output_form,
    print_text,
)
from daemon.terminal.layout import moment_text
from state.errors import TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from daemon.status.address import DaemonAddress
    from daemon.status.model import DaemonStatus
    from daemon.status.report.health_check import Checked


LAG_MAX_S: Final = 300.0


WATCH_S: Final = 2.0


@click.command()
@click.argument("policy", required=False)
@config_option
@json_option
@daemon_option
@click.option("--table", metavar="DB.TABLE", help="Show only entries for this table.")
@click.option(
    "--watch",
    "watches",
    is_flag=True,
    help="Show the status again after each change, and without a daemon every two seconds. If the output is "
    "not a terminal, print one line per change.",
)
@click.option("--problems", "only_problems", is_flag=True, help="Show only problems.")
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
    help="Show every projection. By default, with more than 20, show only those with a deviation.",
)
@click.pass_context
def status(  # noqa: PLR0913 - click passes one argument for each option
    ctx: click.Context,
    /,
    policy: str | None,
    config_path: Path | None,
    *,
    as_json: bool,
    daemon: DaemonAddress | None,
    table: str | None,
    watches: bool,
    checks: bool,
    lag_max_s: float,
    **shown: bool,
) -> None:
    """Show what needs an operator, problems, positions and lags of the daemon, or only those of POLICY.

    Queries the running daemon. If none is running, shows the last recorded status and exits with 1.
    """
    from daemon.status.client import find_daemon, watch_status
    from daemon.status.report.summary import narrow

    sections = application().status_sections()

    def load() -> DaemonStatus:
        return narrow(_load(config_path, daemon), sections, policy, table)

    if checks and not watches:
        _check(ctx, load, lag_max_s)
    if watches:

        def reports() -> Iterator[DaemonStatus]:
            address = daemon or find_daemon(load_config(config_path).state.dir)
            if address is None:
                yield load()
            else:
                yield from (narrow(each, sections, policy, table) for each in watch_status(address, sections))

        _watch(
            reports,
            lambda report: _text(report, **shown),
            lambda report: _checked(report, lag_max_s).line,
        )
        return
    report = load()
    if as_json:
        echo_json(report.to_json(), records="projections")
    else:
        print_text(_text(report, **shown), colours=True)
    ctx.exit(1 if report.state == "stopped" else 0)


def _text(report: DaemonStatus, *, only_problems: bool, shows_all: bool) -> str:
    from daemon.status.report.text import problems_text, status_text

    sections = application().status_sections()
    if only_problems:
        return problems_text(report, sections)
    return status_text(report, sections, shows_all=shows_all or output_form() == "wide")


def _watch(
    reports: Callable[[], Iterable[DaemonStatus]],
    text: Callable[[DaemonStatus], str],
    check: Callable[[DaemonStatus | TidelineError], str],
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """On a terminal, show the ``text`` of each status; elsewhere, print the line of its health check if it
    has changed.

    When ``reports`` ends, reads it again. Ends with Ctrl-C.
    """
    last = ""

    def show(report: DaemonStatus | TidelineError) -> None:
        nonlocal last
        if sys.stdout.isatty():
            click.clear()
            shown = check(report) if isinstance(report, TidelineError) else text(report)
            print_text(shown, colours=True)
        elif (shown := check(report)) != last:
            last = shown
            print_text(f"{moment_text(time.time())} {shown}")
            sys.stdout.flush()

    with suppress(KeyboardInterrupt):
        while True:
            try:
                for report in reports():
                    show(report)
            except TidelineError as error:
                show(error)
            pause(WATCH_S)


def _load(config_path: Path | None, daemon: DaemonAddress | None) -> DaemonStatus:
    from daemon.status.client import fetch_status, load_status

    sections = application().status_sections()
    if daemon is not None:
        return fetch_status(daemon, sections)
    return load_status(load_config(config_path).state.dir, sections)


def _check(ctx: click.Context, load: Callable[[], DaemonStatus], lag_max_s: float) -> NoReturn:
    try:
        checked = _checked(load(), lag_max_s)
    except TidelineError as error:
        checked = _checked(error, lag_max_s)
    print_text(checked.line)
    ctx.exit(checked.exit_code)


def _checked(report: DaemonStatus | TidelineError, lag_max_s: float) -> Checked:
    from daemon.status.report.health_check import check_status, unknown_status

    if isinstance(report, TidelineError):
        return unknown_status(report)
    return check_status(report, application().status_sections(), lag_max_s)


@click.command()
@json_option
def version(as_json: bool) -> None:
    """Print the version."""
    from daemon.terminal.application import version_text

    if as_json:
        echo_json({"version": version_text()})
    else:
        print_text(f"tideline {version_text()}")
