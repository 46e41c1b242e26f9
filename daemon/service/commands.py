"""``tideline run``, ``tideline relay`` and ``tideline config check | show | schema``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, NoReturn

import click

from daemon.service.capabilities import CAPABILITIES
from daemon.status.address import daemon_option
from daemon.terminal.application import (
    CommandGroup,
    application,
    config_option,
    echo_json,
    json_option,
    load_config,
    print_text,
)
from state.value_text import count_text


if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from daemon.config.document import Problem
    from daemon.status.address import DaemonAddress


_DEFAULTS: Final = "the defaults (there is no configuration file)"


@click.command()
@config_option
@click.pass_context
def run(ctx: click.Context, config_path: Path | None) -> None:
    """Run the daemon until SIGTERM: relays, projections and the drivers of flat tables.

    The first SIGTERM or SIGINT stops the loops within supervisor.drain_s and exits with 0. The second exits
    with 1 immediately.
    """
    ctx.exit(_run(config_path, projections=True))


@click.command()
@config_option
@click.pass_context
def relay(ctx: click.Context, config_path: Path | None) -> None:
    """Run only the relays: publish the notification logs of the sources to their topics."""
    ctx.exit(_run(config_path, projections=False))


def _run(config_path: Path | None, *, projections: bool) -> int:
    from daemon.config.load import find_file
    from daemon.service.lifecycle import run_daemon

    config, path = load_config(config_path), find_file(config_path)
    warnings = application().config_reader().read(path).problems
    code = run_daemon(config, projections=projections, config_file=path, warnings=warnings)
    if code:
        _exit_immediately(code)
    return code


def _exit_immediately(code: int) -> NoReturn:
    """Exit without waiting for the threads of loops that did not end in time."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@click.group(cls=CommandGroup)
def config() -> None:
    """Check, show and describe the configuration."""


@config.command()
@config_option
@json_option
@click.option("--live", is_flag=True, help="Also check the metastores and the broker.")
@click.pass_context
def check(ctx: click.Context, config_path: Path | None, as_json: bool, live: bool) -> None:
    """Print every problem at once; exit with 1 if the daemon could not run."""
    from daemon.config.load import find_file, use_logins_of
    from daemon.process.redaction import redactor, use_secrets
    from daemon.service.configuration import starts_nothing

    path = find_file(config_path)
    loaded = application().config_reader().read(path)
    problems = list(loaded.problems)
    if loaded.config is not None and starts_nothing(loaded.config):
        problems.append(_nothing_configured(path))
    if live and loaded.config is not None:
        use_secrets(loaded.config.secrets())
        use_logins_of(loaded.config)
        for capability in CAPABILITIES:
            problems += capability.live_problems(loaded.config)
    problems = redactor().texts(problems)
    fatal = [problem for problem in problems if not problem.warning]
    if as_json:
        echo_json({"file": path, "ok": not fatal, "problems": problems})
    else:
        _print(path, problems)
    ctx.exit(1 if fatal else 0)


def _nothing_configured(path: Path | None) -> Problem:
    from daemon.config.document import Problem

    return Problem(
        str(path or _DEFAULTS),
        "",
        None,
        "nothing is configured: the daemon would run no relay, policy, catalog, endpoint or flat table",
        "add 'sources' or 'flat'; docs/CONFIG.md has an example",
    )


def _print(path: Path | None, problems: Sequence[Problem]) -> None:
    for problem in problems:
        print_text(f"{'Warning' if problem.warning else 'Error'} [config]: {problem}")
    warnings = len([problem for problem in problems if problem.warning])
    errors = len(problems) - warnings
    print_text(
        f"{path or _DEFAULTS}: "
        + (
            count_text(errors, "problem")
            if errors
            else count_text(warnings, "warning")
            if warnings
            else "no problems"
        )
    )


@config.command()
@config_option
@json_option
@daemon_option
def show(config_path: Path | None, as_json: bool, daemon: DaemonAddress | None) -> None:
    """Print the effective settings, with defaults and environment variables; with --url those of the daemon.

    Masks secrets, and texts in 'options' and 'conf' whose names are not known to be harmless.
    """
    from daemon.config.shown import show_settings

    if daemon is None:
        settings = show_settings(load_config(config_path).model_dump(mode="json"))
    else:
        from daemon.service.configuration_page import PATH
        from daemon.status.client import fetch_json

        settings = fetch_json(daemon, PATH, {})
    if as_json:
        echo_json(settings)
    else:
        import yaml

        shown = show_settings(settings, quantities=True)
        print_text(yaml.safe_dump(shown, sort_keys=False), nl=False)


@config.command()
@click.option("--format", "form", type=click.Choice(["json", "markdown"]), default="json", show_default=True)
def schema(form: str) -> None:
    """Print the JSON schema of the configuration file, or its description as Markdown."""
    from daemon.config.reference import markdown

    model = application().config_reader().model
    if form == "markdown":
        print_text(markdown(model), nl=False)
    else:
        echo_json(model.model_json_schema())
