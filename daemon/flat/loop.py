"""The loop of a flat table: runs the table's Spark driver, and makes its row of the status from the driver's
events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from daemon.capability import Runtime
from daemon.flat.metrics import FlatMeasures, FlatMetrics
from daemon.flat.settings import FLAT
from daemon.flat.status import DriverProgress, FlatStatus
from daemon.process.child import STOPPED, build_command, reported_error
from daemon.process.child_loop import ChildLoop
from daemon.process.loops.loop import Job, LoopState
from daemon.process.redaction import redact
from daemon.status.reporter import StatusContext
from state.errors import DriverEnded, StateLocked, TidelineError
from streaming.driver.progress import STOP_REQUESTED


DRAIN_SHARE: Final = 0.8
"""Share of the supervisor's drain time in which the driver may end its batch; the rest is for killing it."""


def loop_name(name: str) -> str:
    """Return the name of a flat table's loop."""
    return f"flat:{name}"


@dataclass(frozen=True, slots=True)
class FlatPart:
    """The loop of one flat table, with its row of the status."""

    job: Job
    status: Callable[[StatusContext], FlatStatus]


def build_flat(runtime: Runtime, name: str, metrics: FlatMetrics) -> FlatPart:
    """Return the loop of the flat table ``name`` with its row of the status. Starts nothing."""
    flat, job = FLAT.of(runtime.config)[name], loop_name(name)
    loop = DriverLoop(
        build_command("split", "run", name, config_file=runtime.config_file),
        FlatMeasures(metrics, name),
        clean=redact,
        stuck_s=flat.stuck_s,
        drain_s=runtime.config.supervisor.drain_s * DRAIN_SHARE,
    )

    def status(moment: StatusContext) -> FlatStatus:
        return flat_status(name, flat.table, job, loop.progress, loop.pid, moment)

    return FlatPart(Job(job, loop.run), status)


def flat_status(  # noqa: PLR0913, PLR0917 - everything that one row is made from
    name: str, table: str, job: str, progress: DriverProgress, pid: int | None, moment: StatusContext
) -> FlatStatus:
    """Return a table's row of the status, from its driver's progress and the state of its loop ``job``."""
    loop = moment.loops[job]
    known_s = moment.now_s if loop.state is LoopState.FOLLOWING else progress.reported_s
    return FlatStatus(
        name=name,
        table=table,
        state=loop.shown_state.value,
        pid=pid,
        batch=progress.batch,
        rows=progress.counts.rows,
        misfits=progress.counts.misfits,
        dead_letters=sum(progress.dead_letters.values()),
        lag_records=progress.lag_records,
        lag_s=moment.lag_s(job, progress.lag_records, progress.watermark_s, known_s),
        columns=progress.columns.get("live"),
        seal_backlog=progress.seal_backlog,
        watermark_s=progress.watermark_s,
        reported_s=progress.reported_s,
        problem=loop.problem,
        code=loop.code,
        restarts=loop.restarts,
    )


class DriverLoop(ChildLoop):
    """Runs the driver of one table; its counts continue when the driver restarts."""

    name = "driver"
    ended = DriverEnded

    def __init__(self, command: Sequence[str], measures: FlatMeasures, **options: Any) -> None:
        super().__init__(command, **options)
        self._measures = measures
        self.progress = DriverProgress()
        """Read by other threads."""

    def count_start(self) -> None:
        """Count a start of the driver."""
        self._measures.count_start()

    def count_refused(self, count: int) -> None:
        """Count unreadable lines from the driver."""
        self._measures.count_refused(count)

    def process_event(self, event: Mapping[str, Any]) -> bool:
        """Add the event to the progress; every event except the last shows that the driver works."""
        now = self.progress.after(event, time.time())
        self._measures.set_progress(self.progress, now)
        durations = event.get("durations")
        if isinstance(durations, dict):
            self._measures.observe_durations(durations)
        self.progress = now
        return bool(event["event"] != STOPPED)

    def reported_end(self, stopped: Mapping[str, Any]) -> TidelineError | None:
        """Return the driver's error; None after an orderly end."""
        if stopped.get("reason") == STOP_REQUESTED:
            return None
        error = reported_error(stopped, self.clean)
        if isinstance(error, StateLocked):
            # Another command, or a driver on another machine, holds the table. Its lease ends, so this needs
            # no operator.
            return DriverEnded("another process writes the table", reason=error.message)
        return error
