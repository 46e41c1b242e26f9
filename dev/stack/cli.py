"""``python -m dev.stack``: preflight, fetch, lock, up, down, status."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

import click

from dev.stack import preflight as checks
from dev.stack.cluster import Stack
from dev.stack.downloads.jars import Jar, cache_dir, fetch, missing, read_lock
from dev.stack.downloads.lock_writer import pin
from dev.stack.downloads.maven_repository import repository_root
from dev.stack.downloads.npm import WEBHOOKS, fetched
from dev.stack.endpoints import FILE, read_endpoints
from dev.stack.errors import Missing, StackError
from dev.stack.hive.java_build import harness_jar
from dev.stack.process.component import running_pid
from dev.stack.process.owner_watch import stop_all


DEFAULT_DIR = Path("build") / "stack"  # no hidden name: Hive reads no data below one
_dir = click.option(
    "--dir", "directory", type=click.Path(path_type=Path), default=DEFAULT_DIR, show_default=True
)


@click.group()
def cli() -> None:
    """Real components for tests, demo and benchmarks: Kafka and two Hive 4 clusters on 127.0.0.1."""


@cli.command()
@_dir
@click.option("--port", "ports", multiple=True, type=int, help="A port that must be free; may be repeated.")
@click.option("--quiet", is_flag=True, help="Say nothing when all is well.")
def preflight(directory: Path, ports: tuple[int, ...], *, quiet: bool) -> None:
    """Check that this machine has what is needed, before anything is downloaded."""
    checks.check_all(directory, ports)
    if not quiet:
        click.echo("this machine has what the stack needs")


@cli.command("fetch")
def fetch_command() -> None:
    """Bring the pinned jars and the corpus of events into the cache and compile our Java."""
    fetch_all()


@cli.command()
def lock() -> None:
    """For developers: pin the jars of locks/*.pom.xml anew (needs Maven)."""
    for name in checks.LOCK_NAMES:
        click.echo(f"{name}.lock: {pin(name)} jars")


@cli.command()
@_dir
@click.option("--detach", is_flag=True, help="Return when everything serves and leave it running.")
def up(directory: Path, *, detach: bool) -> None:
    """Start everything, write DIR/endpoints.json and print it; without --detach until ctrl-c."""
    if any(running_pid(file) for file in directory.glob("*/*.pid")):
        raise StackError(
            f"a stack runs in {directory} already: 'python -m dev.stack status --dir {directory}'"
        )
    checks.check_all(directory)
    fetch_all()
    began = time.monotonic()
    stack = Stack(directory)
    stack.start(engines=True)
    stack.endpoints().write(stack.directory)
    click.echo(stack.endpoints().to_json())
    click.echo(f"everything serves after {time.monotonic() - began:.1f} s", err=True)
    if detach:
        stack.detach()
        return
    try:
        _until_interrupted()
    finally:
        stack.stop()
        (stack.directory / FILE).unlink(missing_ok=True)


@cli.command()
@_dir
def down(directory: Path) -> None:
    """Stop what runs in DIR; the data stays."""
    (directory / FILE).unlink(missing_ok=True)
    click.echo(f"{stop_all(directory)} processes stopped")


@cli.command()
@_dir
def status(directory: Path) -> None:
    """Tell what runs in DIR; exit code 1 when nothing does."""
    files = sorted(directory.glob("*/*.pid"))
    for file in files:
        pid = running_pid(file)
        click.echo(f"{file.parent.name + '/' + file.stem:20} {f'pid {pid}' if pid else 'gone'}")
    if not any(running_pid(file) for file in files):
        raise StackError(f"nothing runs in {directory}")
    click.echo(read_endpoints(directory / FILE).to_json())


def fetch_all() -> None:
    """Every jar of every lock, the harness and the corpus of events; quiet when all is there."""
    jars = [jar for name in checks.LOCK_NAMES for jar in read_lock(name)]
    if wanted := missing(jars):
        began, counter = time.monotonic(), _Counter(len(wanted))
        fetch(wanted, repository_root(), progress=counter.add)
        click.echo(f"{counter.told()} in {time.monotonic() - began:.1f} s, kept in {cache_dir()}", err=True)
    harness_jar()
    try:
        fetched(WEBHOOKS)
    except Missing as missed:
        click.echo(f"without the corpus of events: {missed}", err=True)


class _Counter:
    """Bytes so far, on a terminal as they come."""

    def __init__(self, jars: int) -> None:
        self.jars = jars
        self.bytes = 0
        self._lock = threading.Lock()

    def told(self) -> str:
        return f"{self.jars} jars, {self.bytes / 1e6:.0f} MB fetched"

    def add(self, _jar: Jar, size_bytes: int) -> None:
        with self._lock:
            self.bytes += size_bytes
            if sys.stderr.isatty():
                click.echo(f"\r{self.told()} ", nl=False, err=True)


def _until_interrupted() -> None:
    asked = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: asked.set())
    asked.wait()


def main() -> None:
    """Run a command; what is wrong is told in one message, exit code 1."""
    try:
        cli(standalone_mode=True)
    except StackError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
