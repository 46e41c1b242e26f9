"""A loop that runs a child process: starts it, processes its events, ends it, and raises the error of its
end.

The supervisor restarts the loop like any other, so the class of a child's error decides whether the loop
tries again (``daemon.process.loops.retry_policy``). A restarted child continues from its own durable state,
so killing one is always safe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import structlog

from daemon.process.child import LISTEN_S, STARTED, STOPPED, Child
from daemon.process.loops.heartbeat import Heartbeat
from state.errors import MalformedEvent, TidelineError


log = structlog.get_logger(__name__)


class ChildLoop:
    """Runs one command as a child, repeatedly. Subclasses process its events and the error of its end."""

    name: ClassVar[str]
    """The child's name in log lines and errors."""
    ended: ClassVar[type[TidelineError]]
    """Raised if the child itself reports no error."""

    def __init__(
        self,
        command: Sequence[str],
        clean: Callable[[str], str] = str,
        *,
        stuck_s: float | None = None,
        drain_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = command
        self._clock = clock
        self._stuck_s = stuck_s
        """How long a child may report nothing; None means no limit."""
        self._drain_s = drain_s
        """Time for a child to end when the loop stops; 0 kills it at once."""
        self._heard_s = clock()
        self._refused = 0
        self.clean = clean
        """Masks secrets in the child's output, because HTTP shows errors."""
        self.pid: int | None = None
        """Read by other threads."""

    def count_start(self) -> None:
        """Count a start of the child."""

    def count_refused(self, count: int) -> None:
        """Count unreadable lines or events from the child."""

    def process_event(self, event: Mapping[str, Any]) -> bool:
        """Process one event and return whether it is progress; raise MalformedEvent."""
        raise NotImplementedError

    def reported_end(self, stopped: Mapping[str, Any]) -> TidelineError | None:
        """Return the error that the last event of a child reports; None if it reports an orderly end."""
        raise NotImplementedError

    def run(self, heartbeat: Heartbeat) -> None:
        """Run the child until the loop stops; raise the error that ended the child."""
        self._heard_s, self._refused = self._clock(), 0
        with Child(self._command) as child:
            self.pid = child.pid
            self.count_start()
            try:
                error = self._follow(child, heartbeat)
                if heartbeat.stopping.is_set():
                    self._drain(child)
                    return
            finally:
                self.pid = None
        if error is not None:
            raise error

    def _follow(self, child: Child, heartbeat: Heartbeat) -> TidelineError | None:
        """Process events until the child ends or is stuck, and return the reason; None if the loop stops."""
        stopped: Mapping[str, Any] | None = None
        while not heartbeat.stopping.is_set():
            code = child.exit_code  # before listening, so that the last events arrive before the end
            for event in self._listen(child):
                stopped = event if event["event"] == STOPPED else stopped
                is_progress = self._process(event)
                if is_progress is not None and event["event"] == STARTED:
                    heartbeat.following()
                elif is_progress:
                    heartbeat.progress()
            if code is not None:
                error = None if stopped is None else self.reported_end(stopped)
                return error or self.ended(
                    f"the {self.name} ended", exit_code=code, last_words=child.recent_output(self.clean)
                )
            if self._stuck_s is not None and self._clock() - self._heard_s > self._stuck_s:
                return self.ended(
                    f"the {self.name} reported no progress and was killed", stuck_s=self._stuck_s
                )
            heartbeat.beat()
        return None

    def _drain(self, child: Child) -> None:
        """Request that the child ends, and wait for a limited time. Leaving its context then kills it."""
        if not self._drain_s:
            return
        child.request_stop()
        deadline = self._clock() + self._drain_s
        code: int | None = None
        while code is None and self._clock() < deadline:
            code = child.exit_code  # before listening, as in _follow
            for event in self._listen(child):
                self._process(event)
        if code is None:
            log.warning(
                "a child process did not end in time and is killed", child=self.name, drain_s=self._drain_s
            )

    def _listen(self, child: Child) -> list[Mapping[str, Any]]:
        events, output = child.listen(LISTEN_S)
        for line in output:
            log.info("output of a child process", child=self.name, line=line)
        if child.refused > self._refused:
            self.count_refused(child.refused - self._refused)
            self._refused = child.refused
        if events:
            self._heard_s = self._clock()
        return events

    def _process(self, event: Mapping[str, Any]) -> bool | None:
        """Process one event. Returns whether it is progress, None if it is unreadable."""
        try:
            return self.process_event(event)
        except MalformedEvent as error:
            log.warning("an event of a child process was ignored", child=self.name, problem=str(error))
            self.count_refused(1)
            return None
