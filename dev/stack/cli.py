"""``python -m dev.stack``: preflight, fetch, lock, up, run, down, status, sql."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from dev.stack import preflight as checks
from dev.stack.cluster import Stack
from dev.stack.downloads.jars import Jar, cache_dir, fetch, find_missing, read_lock
from dev.stack.downloads.lock_writer import write_lock
from dev.stack.downloads.maven_repository import find_repository
from dev.stack.downloads.npm import WEBHOOKS, fetch_package
from dev.stack.endpoints import FILE, ClusterEndpoints, read_endpoints
from dev.stack.errors import Missing, StackError
from dev.stack.hive.java_build import build_harness
from dev.stack.hive.sql_session import Session
from dev.stack.optional_programs import list_missing
from dev.stack.process.component import running_pid
from dev.stack.process.owner_watch import stop_all


STACK_LOCKS: Final = ("kafka", "hive", "compiler")
"""The locks of Kafka, of both Hive clusters, and of the compiler of the harness."""
DEFAULT_DIR = (
    Path("build") / "stack"
)  # must not be hidden, because Hive reads no data below a hidden directory
_dir = click.option(
    "--dir", "directory", type=click.Path(path_type=Path), default=DEFAULT_DIR, show_default=True
)


@click.group()
def cli() -> None:
    """Real components for tests, demo and benchmarks: Kafka and two Hive 4 clusters on 127.0.0.1."""


@cli.command()
@_dir
@click.option(
    "--port", "ports", multiple=True, type=int, help="Require that this port is free. May be repeated."
)
@click.option("--quiet", is_flag=True, help="Print problems only.")
@click.option("--tests", is_flag=True, help="List the tests that will be skipped, and how to run them.")
def preflight(directory: Path, ports: tuple[int, ...], *, quiet: bool, tests: bool) -> None:
    """Check that this machine meets the requirements, before anything is downloaded."""
    checks.check_all(directory, ports)
    for line in list_missing(os.environ) if tests else ():
        click.echo(f"will be skipped: tests of {line}", err=True)
    if not quiet:
        click.echo("this machine meets the requirements of the stack")


@cli.command("fetch")
def fetch_command() -> None:
    """Download the pinned jars and the corpus of events into the cache, and compile the Java classes."""
    fetch_all()


@cli.command()
def lock() -> None:
    """Resolve locks/*.pom.xml again and write the lock files (for developers; needs Maven)."""
    for name in checks.LOCK_NAMES:
        click.echo(f"{name}.lock: {write_lock(name)} jars")


@cli.command()
@_dir
@click.option("--detach", is_flag=True, help="Return when everything is ready, and leave it running.")
def up(directory: Path, *, detach: bool) -> None:
    """Start everything, then write and print DIR/endpoints.json.
    Runs until ctrl-c unless --detach is given.
    """
    if any(running_pid(file) for file in directory.glob("*/*.pid")):
        raise StackError(
            f"a stack is already running in {directory}: see 'python -m dev.stack status --dir {directory}'"
        )
    checks.check_all(directory)
    fetch_all()
    began = time.monotonic()
    stack = Stack(directory)
    stack.start(engines=True)
    stack.endpoints().write(stack.directory)
    click.echo(stack.endpoints().to_json())
    click.echo(f"everything is ready after {time.monotonic() - began:.1f} s", err=True)
    if detach:
        stack.detach()
        return
    try:
        _wait_for_interrupt()
    finally:
        stack.stop()
        (stack.directory / FILE).unlink(missing_ok=True)


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(command: tuple[str, ...]) -> None:
    """Run COMMAND with its own stack, and exit with its code. TIDELINE_STACK names the file with its
    endpoints. Afterwards the stack and its data are removed.
    """
    with tempfile.TemporaryDirectory(prefix="tideline-stack-") as directory:
        stack = Stack(Path(directory))
        checks.check_all(stack.directory)
        fetch_all()
        try:
            stack.start(engines=True)
            stack.endpoints().write(stack.directory)
            environment = {**os.environ, "TIDELINE_STACK": directory}
            code = subprocess.run(command, env=environment, check=False).returncode
        finally:
            stack.stop()
    sys.exit(code)


@cli.command()
@_dir
def down(directory: Path) -> None:
    """Stop everything that runs in DIR; keep the data."""
    (directory / FILE).unlink(missing_ok=True)
    click.echo(f"{stop_all(directory)} processes stopped")


@cli.command()
@_dir
def status(directory: Path) -> None:
    """Show the processes that run in DIR; exit with 1 if there are none."""
    files = sorted(directory.glob("*/*.pid"))
    for file in files:
        pid = running_pid(file)
        click.echo(f"{file.parent.name + '/' + file.stem:20} {f'pid {pid}' if pid else 'not running'}")
    if not any(running_pid(file) for file in files):
        raise StackError(f"nothing runs in {directory}")
    click.echo(read_endpoints(directory / FILE).to_json())


@cli.command()
@_dir
@click.argument("side", type=click.Choice(["source", "target"]))
@click.argument("statements", default="-")
def sql(directory: Path, side: str, statements: str) -> None:
    """Run STATEMENTS, separated by ';' at the end of a line, on a cluster that runs in DIR; print the rows.

    Without STATEMENTS they are read from standard input.
    """
    text = sys.stdin.read() if statements == "-" else statements
    cluster: ClusterEndpoints = getattr(read_endpoints(directory / FILE), side)
    with Session.connect(cluster.sql) as session:
        for statement in re.split(r";[ \t]*(?:\n|$)", text):
            for row in session.rows(statement) if statement.strip() else ():
                click.echo("\t".join(map(str, row)))


def fetch_all() -> None:
    """Fetch the jars of every lock, the harness and the corpus of events. Prints nothing if all of them are
    present.
    """
    fetch_stack(checks.LOCK_NAMES)
    try:
        fetch_package(WEBHOOKS)
    except Missing as missed:
        click.echo(f"continuing without the corpus of events: {missed}", err=True)


def fetch_stack(locks: Sequence[str] = STACK_LOCKS) -> None:
    """Fetch the jars of ``locks``, by default those of Kafka and Hive, and build the harness."""
    if absent := find_missing(jar for name in locks for jar in read_lock(name)):
        began, counter = time.monotonic(), _Counter(len(absent))
        click.echo(f"fetching {len(absent)} jars", err=True)
        fetch(absent, find_repository(), progress=counter.add)
        click.echo(
            f"{counter.describe()} in {time.monotonic() - began:.1f} s, stored in {cache_dir()}", err=True
        )
    build_harness()


class _Counter:
    """Counts downloaded bytes, and shows them on a terminal."""

    def __init__(self, jars: int) -> None:
        self.jars = jars
        self.bytes = 0
        self._lock = threading.Lock()

    def describe(self) -> str:
        return f"{self.jars} jars, {self.bytes / 1e6:.0f} MB fetched"

    def add(self, _jar: Jar, size_bytes: int) -> None:
        with self._lock:
            self.bytes += size_bytes
            if sys.stderr.isatty():
                click.echo(f"\r{self.describe()} ", nl=False, err=True)


def _wait_for_interrupt() -> None:
    interrupted = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: interrupted.set())
    interrupted.wait()


def main() -> None:
    """Run a command; print a StackError as one message and exit with 1."""
    try:
        cli(standalone_mode=True)
    except StackError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
