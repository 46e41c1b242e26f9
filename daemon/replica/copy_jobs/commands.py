"""``tideline copyjob``: the driver of one copy job. The daemon and ``tideline bootstrap`` start it."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from state.errors import ConfigError, TidelineError


if TYPE_CHECKING:
    from collections.abc import Mapping

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

    Other commands start it; it cannot be used alone. It ends at once when its standard input is closed.
    """
    from daemon.process.children.parent_watch import end_with_parent
    from daemon.replica.copy_jobs.order import read_order
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
    """Raise ConfigError where Spark is not installed."""
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
    """Return a listener for several threads: a long line is not written in one step."""
    lock = threading.Lock()

    def listen(event: Mapping[str, Any]) -> None:
        with lock:
            listener(event)

    return listen
