"""``tideline doctor``: prints a page about this installation, to paste into a bug report.

It shows versions, the state of the machine, the problems of ``config check --live`` and the health of the
daemon. Every part is checked on its own; a check that fails is a line of the page. Secrets are masked.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import click

from daemon.config.model import Config
from daemon.process.redaction import redactor
from daemon.service.capabilities import CAPABILITIES
from daemon.status.address import DaemonAddress, daemon_option
from daemon.status.client import fetch_status, load_status
from daemon.status.model import DaemonStatus
from daemon.terminal.application import (
    application,
    config_option,
    echo,
    json_option,
    version_text,
)
from daemon.terminal.layout import bytes_text, duration_text, left_aligned, moment_text
from state.errors import TidelineError
from state.value_text import count_text


LIBRARIES: Final = ("confluent-kafka", "hdfs-native", "pyarrow", "pydantic", "starlette", "pyspark")
FREE_SHARE_MIN: Final = 0.1
CLOCK_S_MAX: Final = 2.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the page."""

    name: str
    state: str
    """``ok``, ``warning``, ``failed``, or ``-`` for plain facts."""
    text: str


@click.command()
@config_option
@json_option
@daemon_option
@click.pass_context
def doctor(ctx: click.Context, config_path: Path | None, as_json: bool, daemon: DaemonAddress | None) -> None:
    """Check this installation, and print one page for a report: versions, machine, configuration, servers.

    With --url, check that daemon instead of the configuration and its servers. Masks secrets. Exits with 1 if
    a check failed.
    """
    findings = [Finding(each.name, each.state, _masked(each.text)) for each in examine(config_path, daemon)]
    echo([asdict(each) for each in findings], as_json, lambda _: page_text(findings))
    ctx.exit(1 if any(each.state == "failed" for each in findings) else 0)


def page_text(findings: Sequence[Finding]) -> str:
    """Return the page."""
    return "\n".join(left_aligned([(each.name, each.state, each.text) for each in findings]))


def examine(config_path: Path | None, daemon: DaemonAddress | None = None) -> Iterator[Finding]:
    """Yield the findings. An error of the tree is a finding, too."""
    yield from _versions()
    if daemon is not None:
        yield from _daemon(partial(fetch_status, daemon, application().status_sections()), "failed")
        return
    config = None
    try:
        config = yield from _configuration(config_path)
    except TidelineError as error:
        yield Finding("configuration", "failed", str(error))
    if config is not None:
        yield _disk(config.state.dir)
        yield from _daemon(partial(load_status, config.state.dir, application().status_sections()), "warning")


def _versions() -> Iterator[Finding]:
    yield Finding("tideline", "-", version_text())
    yield Finding("python", "-", f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}")
    yield Finding("machine", "-", f"{platform.platform()}, {count_text(os.cpu_count() or 0, 'core')}")
    yield Finding("libraries", "-", ", ".join(f"{name} {_version_of(name)}" for name in LIBRARIES))
    yield Finding("time", "-", moment_text(time.time()))


def _version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "is not installed"


def _configuration(config_path: Path | None) -> Generator[Finding, None, Config | None]:
    """Yield the problems of the configuration and of the servers that it names; return the configuration."""
    from daemon.config.load import find_file, use_logins_of
    from daemon.process.redaction import use_secrets

    path = find_file(config_path)
    loaded = application().config_reader().read(path)
    problems = list(loaded.problems)
    if loaded.config is not None:
        use_secrets(loaded.config.secrets())
        use_logins_of(loaded.config)
        for capability in CAPABILITIES:
            problems += capability.live_problems(loaded.config)
    for problem in problems:
        yield Finding("configuration", "warning" if problem.warning else "failed", str(problem))
    if not problems:
        yield Finding("configuration", "ok", f"{path or 'defaults'}; all its servers answer")
    return loaded.config


def _disk(directory: Path) -> Finding:
    try:
        volume = os.statvfs(directory)
    except OSError as error:
        return Finding("disk", "failed", f"{directory}: {error.strerror}")
    free, size = volume.f_bavail * volume.f_frsize, volume.f_blocks * volume.f_frsize
    state = "ok" if free >= size * FREE_SHARE_MIN else "warning"
    return Finding("disk", state, f"{directory}: {bytes_text(free)} of {bytes_text(size)} free")


def _daemon(load: Callable[[], DaemonStatus], absent: str) -> Iterator[Finding]:
    from daemon.status.report.commands import LAG_MAX_S
    from daemon.status.report.health_check import Health, check_status

    sections = application().status_sections()
    asked_s = time.time()
    try:
        status = load()
    except TidelineError as error:
        yield Finding("daemon", absent, error.message)
        return
    checked = check_status(status, sections, LAG_MAX_S)
    states = {Health.OK: "ok", Health.WARNING: "warning"}
    yield Finding("daemon", states.get(checked.health, "failed"), f"{status.version}: {checked.text}")
    if status.state != "stopped":
        difference_s = max(0.0, status.time_s - time.time(), asked_s - status.time_s)
        state = "ok" if difference_s <= CLOCK_S_MAX else "warning"
        yield Finding("clocks", state, f"the daemon's differs by {duration_text(difference_s)}")


def _masked(text: str) -> str:
    return str(redactor().text(text))
