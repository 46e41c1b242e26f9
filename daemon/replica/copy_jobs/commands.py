"""``tideline copyjob``: the driver of one copy job. The daemon and ``tideline bootstrap`` start it.

They send the order of the job over the driver's standard input: settings and copies, one JSON document in
each line, and an empty line at the end. The input then stays open; when it closes, the daemon has ended. The
settings contain secrets of file systems, so they are neither in a file nor on a command line.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
import orjson

from handlers.files.copying.jobs import SizedTask
from state.errors import ConfigError, MalformedEvent, TidelineError
from streaming.copyjob.share import ShareSettings, read_copy, write_copy
from streaming.settings import SparkSettings


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import BinaryIO

    from streaming.copyjob.job import JobSettings
    from streaming.driver.progress import ProgressListener


DONE = "done"


@click.command(name="copyjob")
@click.option(
    "--progress-fd",
    type=click.IntRange(3),
    required=True,
    help="Write events as JSON lines to this descriptor.",
)
def copyjob(progress_fd: int) -> None:
    """Run the copy job that standard input describes, and report each file.

    Other commands start it; it is useless alone. It ends at once when its standard input closes.
    """
    from daemon.process.signals import end_with_parent
    from daemon.replica.copy_jobs.commands import read_order
    from streaming.driver.progress import stopped_event, write_lines_to

    settings, copies = read_order(sys.stdin.buffer)
    end_with_parent()
    progress = _one_at_a_time(write_lines_to(progress_fd))
    try:
        require_spark()
        from dataclasses import replace

        from streaming.copyjob.job import run_job, share_environment
        from streaming.driver.masters import make_reachable

        reachable = replace(settings, spark=make_reachable(settings.spark))
        failed_tasks = run_job(share_environment(reachable), copies, progress)
    except TidelineError as error:
        progress(stopped_event(error))
        raise
    progress({"event": "stopped", "reason": DONE, "failed_tasks": failed_tasks})


def require_spark() -> None:
    """Raise ConfigError without Spark."""
    try:
        import py4j  # noqa: F401 - only whether it is installed matters
        import pyspark  # noqa: F401 - likewise
    except ImportError as error:
        raise ConfigError(
            "copy jobs need packages that are not installed",
            package=error.name,
            hint="Install them: pip install 'tideline[flat]', or remove copy_jobs from the policy.",
        ) from error


def _one_at_a_time(listener: ProgressListener) -> ProgressListener:
    """Return a thread-safe listener: writing a long line takes several steps."""
    lock = threading.Lock()

    def listen(event: Mapping[str, Any]) -> None:
        with lock:
            listener(event)

    return listen


Numbered = tuple[int, SizedTask]


def write_order(settings: JobSettings, copies: Iterable[Numbered]) -> Iterator[bytes]:
    """Yield the lines of an order."""
    yield orjson.dumps(asdict(settings), default=dict) + b"\n"
    for number, copy in copies:
        yield orjson.dumps([number, write_copy(copy)]) + b"\n"
    yield b"\n"


def read_order(stream: BinaryIO) -> tuple[JobSettings, list[Numbered]]:
    """Read an order; raise MalformedEvent if it is invalid or not complete."""
    from streaming.copyjob.job import JobSettings

    lines: list[bytes] = []
    while (line := stream.readline()) != b"\n":
        if not line:
            raise MalformedEvent("the instructions of a copy job are incomplete", lines=len(lines))
        lines.append(line)
    try:
        given: dict[str, Any] = orjson.loads(lines[0])
        share, spark = ShareSettings(**given.pop("share")), SparkSettings(**given.pop("spark"))
        copies = [(int(number), read_copy(values)) for number, values in map(orjson.loads, lines[1:])]
        return JobSettings(share, spark, **given), copies
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise MalformedEvent("the instructions of a copy job cannot be read", reason=repr(error)) from error
