"""The loop that reads the compactions of one target, for all policies that replicate to it.

It has a thread and its own connection and only reads, so it never delays replay. A call that fails is
part of the status, together with the last answer and its time, and the next one follows after
``targets.NAME.compactions_every_s``. Policies are read one after the other with a pause, so that hundreds of
them cost no more than ten small calls a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final

import structlog

from daemon.capability import Runtime
from daemon.process.loops.heartbeat import Heartbeat, wait
from daemon.process.loops.loop import Job
from daemon.replica.status.compactions import LISTED_MAX, CompactionStatus, describe_backlog
from daemon.sources.connections import measured_metastore
from handlers.metastore.client import Metastore
from handlers.replication.operations.compaction import read_backlog
from state.errors import TidelineError


PAUSE_S: Final = 0.5
"""Pause between two policies; one costs five small calls."""

log = structlog.get_logger(__name__)


class CompactionWatch:
    """Reads one target. ``policies`` returns the names of the policies that replicate to it;
    any thread may call ``status``.
    """

    def __init__(self, runtime: Runtime, target: str, policies: Callable[[], Sequence[str]]) -> None:
        self._runtime = runtime
        self._target = target
        self._policies = policies
        self._read: dict[str, CompactionStatus] = {}
        """By policy; entries are replaced as a whole, because any thread reads them."""

    def status(self) -> tuple[CompactionStatus, ...]:
        """Return the last reading, by policy."""
        return tuple(self._read.get(name, CompactionStatus(name)) for name in self._policies())

    def run(self, heartbeat: Heartbeat) -> None:
        """Read until a stop is requested."""
        config, calls = self._runtime.config, self._runtime.calls
        connect = measured_metastore(calls, self._target, heartbeat.beat)
        with closing(connect(config.targets[self._target].metastore)) as metastore:
            heartbeat.following()
            while not heartbeat.stopping.is_set():
                self.read_all(
                    metastore,
                    is_stopping=heartbeat.stopping.is_set,
                    pause=lambda: wait(heartbeat, PAUSE_S),
                )
                heartbeat.progress()
                wait(heartbeat, config.targets[self._target].compactions_every_s)

    def read_all(
        self,
        metastore: Metastore,
        *,
        is_stopping: Callable[[], bool] = lambda: False,
        pause: Callable[[], object] = lambda: None,
    ) -> None:
        """Read the compactions of each policy once, with a ``pause`` between two of them."""
        for number, name in enumerate(self._policies()):
            if number:
                pause()
            if is_stopping():
                return
            self._read[name] = self._read_one(name, metastore)

    def _read_one(self, name: str, metastore: Metastore) -> CompactionStatus:
        db = self._runtime.config.policy(name).replica_database
        before = self._read.get(name, CompactionStatus(name))
        try:
            backlog = read_backlog(metastore, db, listed_max=LISTED_MAX)
        except TidelineError as error:
            if before.problem is None:
                log.warning("compactions of the target cannot be read", policy=name, error=str(error))
            return replace(before, problem=f"{error.code}: {error.message}")
        return describe_backlog(name, db, backlog, time.time())


def build_watch(
    runtime: Runtime, target: str, policies: Callable[[], Sequence[str]]
) -> tuple[Job, Callable[[], tuple[CompactionStatus, ...]]]:
    """Return the loop of a target, and its status. Opens nothing yet."""
    watch = CompactionWatch(runtime, target, policies)
    return Job(f"compactions:{target}", watch.run), watch.status
