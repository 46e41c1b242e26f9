"""Sets up the environment of the cases: a stack, a daemon, unique names, and progress messages."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from dev.demo.replicator import Replicator
from dev.stack import cli, preflight
from dev.stack.cluster import Stack
from dev.stack.endpoints import FILE, Endpoints, read_endpoints
from dev.stack.errors import ComponentFailed
from dev.stack.hive.postgres import open_postgres


POLL_S: Final = 0.02


@contextmanager
def open_stack(*, engines: bool = False, postgres: bool = False) -> Iterator[Endpoints]:
    """Provide Kafka and two metastores: those that ``TIDELINE_STACK`` names, or a stack for the duration of
    the block.

    With ``engines``, a new stack has SQL engines, too. With ``postgres``, its metastores use PostgreSQL
    instead of Derby.
    """
    where = os.environ.get("TIDELINE_STACK", "")
    if where:
        path = Path(where)
        yield read_endpoints(path / FILE if path.is_dir() else path)
        return
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as directory, ExitStack() as servers:
        say("starting Kafka and two Hive 4 metastores")
        preflight.check_all(Path(directory))
        cli.fetch_all()
        databases = (
            (servers.enter_context(open_postgres()), servers.enter_context(open_postgres()))
            if postgres
            else (None, None)
        )
        stack = Stack(Path(directory), databases=databases)
        try:
            stack.start(engines=engines)
            yield stack.endpoints()
        finally:
            stack.stop()


@contextmanager
def run_daemon(endpoints: Endpoints, db: str, **environment: str) -> Iterator[Replicator]:
    """Bootstrap a policy for ``db``, which must not exist on the target yet, and run a daemon during the
    block.
    """
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as directory:
        replicator = Replicator(endpoints, Path(directory), db=db)
        replicator.prepare()
        try:
            replicator.start(**environment)
            yield replicator
        finally:
            replicator.stop()


def wait_for(condition: Callable[[], bool], what: str, *, within_s: float = 120.0) -> float:
    """Wait until ``condition`` holds and return the elapsed seconds; raise ComponentFailed on a time-out."""
    began_s = time.perf_counter()
    while not condition():
        if time.perf_counter() - began_s > within_s:
            raise ComponentFailed(f"not within {within_s:.0f} s: {what}")
        time.sleep(POLL_S)
    return time.perf_counter() - began_s


def make_name(prefix: str) -> str:
    """Return a unique name for a database or a topic."""
    return f"bench_{prefix}_{uuid.uuid4().hex[:8]}"


def say(text: str) -> None:
    """Print progress to standard error, apart from the result."""
    print(text, file=sys.stderr, flush=True)
