"""From a flat table's settings to the loop that keeps its Spark driver running.

The loop starts the driver as a child, listens, and beats while the child lives and tells how it goes. However the child ends, the
loop ends with an error of the tree, and ``verdicts`` decides as for every other loop: what may pass is tried again after a pause, a
wrong setting or a replaced topic stops this table alone. A restarted driver goes on where it was, so killing one is always safe.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from daemon.flat.metrics import FlatMeasures
from daemon.flat.progress import DriverNews, FlatStatus
from daemon.flat.settings import FLAT
from daemon.process.child import LISTEN_S, STARTED, STOPPED, Child, build_command, reported_error
from daemon.process.redaction import Redactor
from daemon.process.supervisor import Job
from state.errors import DriverEnded, MalformedEvent, StateLocked, TidelineError
from streaming.driver.progress import STOP_REQUESTED


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from daemon.capability import Runtime
    from daemon.flat.metrics import FlatMetrics
    from daemon.process.heartbeat import Heartbeat
    from daemon.status.reporter import Moment


log = structlog.get_logger(__name__)

DRAIN_SHARE: Final = 0.8
"""Of the time that loops have to end: for the batch at hand; the rest is for ending the driver by force."""


def loop_name(name: str) -> str:
    """Return the name of a flat table's loop."""
    return f"flat:{name}"


@dataclass(frozen=True, slots=True)
class FlatPart:
    """The loop of one flat table, and what it reports."""

    job: Job
    status: Callable[[Moment], FlatStatus]


def build_flat(runtime: Runtime, name: str, metrics: FlatMetrics) -> FlatPart:
    """Return the loop of the flat table ``name`` and what it reports; starts nothing yet."""
    flat, job = FLAT.of(runtime.config)[name], loop_name(name)
    loop = DriverLoop(
        build_command("split", "run", name, config_file=runtime.config_file),
        FlatMeasures(metrics, name),
        stuck_s=flat.stuck_s,
        drain_s=runtime.config.supervisor.drain_s * DRAIN_SHARE,
        clean=Redactor(runtime.config.secrets()).text,
    )

    return FlatPart(
        Job(job, loop.run), lambda moment: flat_status(name, flat.table, job, loop.news, loop.pid, moment)
    )


def flat_status(  # noqa: PLR0913, PLR0917 - everything that one row is made from
    name: str, table: str, job: str, news: DriverNews, pid: int | None, moment: Moment
) -> FlatStatus:
    """Return a table's row in the status, from what its driver has reported and how its loop ``job`` stands."""
    loop = moment.loops[job]
    return FlatStatus(
        name=name,
        table=table,
        state=loop.state.value,
        pid=pid,
        batch=news.batch,
        rows=news.counts.rows,
        misfits=news.counts.misfits,
        dead_letters=sum(news.letters.values()),
        lag_records=news.lag_records,
        lag_s=moment.lag_s(job, news.lag_records, news.watermark_s),
        columns=news.columns.get("live"),
        seal_backlog=news.seal_backlog,
        watermark_s=news.watermark_s,
        told_s=news.told_s,
        problem=loop.problem,
        code=loop.code,
        restarts=loop.restarts,
    )


class DriverLoop:
    """One table's driver, kept over restarts: its counts go on."""

    def __init__(
        self,
        command: Sequence[str],
        measures: FlatMeasures,
        *,
        stuck_s: float,
        drain_s: float,
        clean: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = command
        self._measures = measures
        self._stuck_s = stuck_s
        self._drain_s = drain_s
        self._clean = clean
        """Takes secrets out of what the driver said: errors are shown over HTTP."""
        self._clock = clock
        self._heard_s = clock()
        self._refused = 0
        self.news = DriverNews()
        """Read by other threads."""
        self.pid: int | None = None

    def run(self, heartbeat: Heartbeat) -> None:
        """Run a driver until told to stop; raises what ended it."""
        self._heard_s, self._refused = self._clock(), 0
        with Child(self._command) as driver:
            self.pid = driver.pid
            self._measures.started()
            try:
                end = self._follow(driver, heartbeat)
                if heartbeat.stopping.is_set():
                    self._drain(driver)
                    return
            finally:
                self.pid = None
        raise end

    def _follow(self, driver: Child, heartbeat: Heartbeat) -> TidelineError:
        """Listen until the driver ends, is stuck, or the loop is to stop; return why it ended."""
        stopped: Mapping[str, Any] | None = None
        while not heartbeat.stopping.is_set():
            code = driver.exit_code  # before listening: what it said last has then arrived
            for event in self._listen(driver):
                stopped = event if event["event"] == STOPPED else stopped
                self._take(event, heartbeat)
            if code is not None:
                return self._end(stopped, code, driver)
            if self._clock() - self._heard_s > self._stuck_s:
                return DriverEnded(
                    "the driver told nothing for too long and was killed", stuck_s=self._stuck_s
                )
            heartbeat.beat()
        return DriverEnded("it was told to stop")

    def _drain(self, driver: Child) -> None:
        driver.request_stop()
        deadline = self._clock() + self._drain_s
        code: int | None = None
        while code is None and self._clock() < deadline:
            code = driver.exit_code  # before listening, as in _follow
            for event in self._listen(driver):
                self._note(event)
        if code is None:
            log.warning("the driver did not end in time and is killed", drain_s=self._drain_s)

    def _listen(self, driver: Child) -> list[Mapping[str, Any]]:
        events, output = driver.listen(LISTEN_S)
        for line in output:
            log.info("the driver writes", line=line)
        if driver.refused > self._refused:
            self._measures.refused(driver.refused - self._refused)
            self._refused = driver.refused
        if events:
            self._heard_s = self._clock()
        return events

    def _take(self, event: Mapping[str, Any], heartbeat: Heartbeat) -> None:
        if not self._note(event) or event["event"] == STOPPED:
            return
        if event["event"] == STARTED:
            heartbeat.following()
        else:
            heartbeat.progress()

    def _note(self, event: Mapping[str, Any]) -> bool:
        """Fold the event; False where it cannot be read."""
        try:
            now = self.news.after(event, time.time())
        except MalformedEvent as error:
            log.warning("an event of the driver was left out", problem=str(error))
            self._measures.refused(1)
            return False
        self._measures.news(self.news, now)
        durations = event.get("durations")
        if isinstance(durations, dict):
            self._measures.took(durations)
        self.news = now
        return True

    def _end(self, stopped: Mapping[str, Any] | None, code: int, driver: Child) -> TidelineError:
        """Return the error that a driver's end means."""
        if stopped is None or stopped.get("reason") == STOP_REQUESTED:
            return DriverEnded(
                "the driver ended", exit_code=code, last_words=driver.recent_output(self._clean)
            )
        error = reported_error(stopped, self._clean)
        if isinstance(error, StateLocked):
            # Another command has the table, or a driver on another machine whose lease runs out: both end by themselves.
            return DriverEnded("another process writes the table", reason=error.message)
        return error
