"""The supervisor: starts and stops all loops of the daemon (``loop``), which are isolated from one another.

A failing loop never stops another. Stopping has a deadline. Liveness depends on heartbeats alone, never on
other systems: a metastore that is down must not restart the daemon.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from daemon.process.loops.loop import Job, LoopMeasures, LoopStatus, SupervisedLoop
from daemon.process.loops.retry_policy import RestartPolicy


class Supervisor:
    """All loops of the process. Call ``start`` and ``stop`` once; all other methods are thread-safe."""

    def __init__(
        self, jobs: Sequence[Job], *, backoff: RestartPolicy, heartbeat_max_s: float, measures: LoopMeasures
    ) -> None:
        self._backoff = backoff
        self._measures = measures
        self._heartbeat_max_s = heartbeat_max_s
        self._lock = threading.Lock()
        self._started = False
        self.stopping = threading.Event()
        self._loops: tuple[SupervisedLoop, ...] = ()
        """Replaced as a whole, because other threads iterate over it."""
        for job in jobs:
            self.add(job)

    def start(self) -> None:
        """Start every loop."""
        with self._lock:
            self._started = True
            for loop in self._loops:
                loop.start()

    def add(self, job: Job) -> None:
        """Add a loop, and start it if the other loops run. After a stop request, it never starts."""
        loop = SupervisedLoop(job, self._backoff, self.stopping, self._measures)
        with self._lock:
            names = [each.status.name for each in self._loops]
            assert job.name not in names, f"loop names are not unique: {job.name} in {names}"
            self._loops = (*self._loops, loop)
            if self._started and not self.stopping.is_set():
                loop.start()

    def statuses(self) -> dict[str, LoopStatus]:
        """Return the status of every loop, by name."""
        return {loop.status.name: loop.status for loop in self._loops}

    def deadlines(self) -> dict[str, float]:
        """Return the time (``time.monotonic``) from which each loop counts as stuck without another
        heartbeat.
        """
        return {loop.status.name: loop.stuck_at_s(self._heartbeat_max_s) for loop in self._loops}

    def stuck(self) -> list[str]:
        """Return the loops that have had no heartbeat for too long, or ended without a stop request."""
        now_s = time.monotonic()
        return [name for name, at_s in self.deadlines().items() if at_s < now_s]

    def stop(self, drain_s: float) -> list[str]:
        """Stop every loop and wait for at most ``drain_s``; return the names of the loops that still run."""
        with self._lock:
            self.stopping.set()
        for loop in self._loops:
            loop.wake()
        deadline = time.monotonic() + drain_s
        for loop in self._loops:
            if loop.is_running():
                loop.wait(max(0.0, deadline - time.monotonic()))
        return [loop.status.name for loop in self._loops if loop.is_running()]
