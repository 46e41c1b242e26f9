"""The loop that reads the compactions of one target, for all policies that replicate to it.

It has its own thread and connection and only reads, so it never delays replay. If a call fails, the status
has the error, with the last answer and its time, and the next call follows after
``targets.NAME.compactions_every_s``. The same few calls read the compactions of all policies, so hundreds of
policies cost no more than one.
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
from daemon.replica.status.compactions import (
    LISTED_MAX,
    CompactionRow,
    CompactionStatus,
    describe_backlog,
    describe_row,
)
from daemon.sources.connections import measured_metastore
from handlers.metastore.client import Metastore
from handlers.replication.operations.compaction import UNENDED, Object, read_backlogs, read_succeeded
from state.errors import TidelineError


SUCCEEDED_S: Final = 86_400.0
"""How long the status has compactions that have succeeded."""
log = structlog.get_logger(__name__)


class CompactionWatch:
    """Reads one target. ``policies`` returns the names of the policies that replicate to it. ``status`` is
    thread-safe.
    """

    def __init__(self, runtime: Runtime, target: str, policies: Callable[[], Sequence[str]]) -> None:
        self._runtime = runtime
        self._target = target
        self._policies = policies
        self._read: dict[str, CompactionStatus] = {}
        """The status by policy. It is only replaced as a whole, so reading it is thread-safe."""

    def status(self) -> tuple[CompactionStatus, ...]:
        """Return the last reading, as a row for each policy."""
        read = self._read
        return tuple(read.get(name, CompactionStatus(name)) for name in self._policies())

    def run(self, heartbeat: Heartbeat) -> None:
        """Read until a stop request."""
        config, calls = self._runtime.config, self._runtime.calls
        connect = measured_metastore(calls, self._target, heartbeat.beat)
        with closing(connect(config.targets[self._target].metastore)) as metastore:
            heartbeat.following()
            while not heartbeat.stopping.is_set():
                self.read_all(metastore)
                heartbeat.progress()
                wait(heartbeat, config.targets[self._target].compactions_every_s)

    def read_all(self, metastore: Metastore) -> None:
        """Read the compactions of all policies once."""
        config = self._runtime.config
        dbs = {name: config.policy(name).replica_database for name in self._policies()}
        try:
            backlogs = read_backlogs(metastore, dbs.values(), listed_max=LISTED_MAX)
            now_s = time.time()
            read = {name: describe_backlog(name, db, backlogs[db], now_s) for name, db in dbs.items()}
            self._read = {
                name: self._keep_succeeded(metastore, dbs[name], each) for name, each in read.items()
            }
        except TidelineError as error:
            if all(each.problem is None for each in self.status()):
                log.warning("compactions of the target cannot be read", target=self._target, error=str(error))
            problem = f"{error.code}: {error.message}"
            self._read = {each.policy: replace(each, problem=problem) for each in self.status()}

    def _keep_succeeded(self, metastore: Metastore, db: str, read: CompactionStatus) -> CompactionStatus:
        """Return the status with the compactions that have succeeded, so that an operator who has queued one
        sees its end. Hive keeps them for months and lists the oldest ones first, so this looks up only those
        that the last reading listed as queued or running.
        """
        last = self._read.get(read.policy, read)
        unended = [_object(row) for row in last.listed if row.state in UNENDED]
        listed = {_object(row) for row in read.listed}
        gone = [each for each in unended if each not in listed]
        ended = [describe_row(db, each) for each in read_succeeded(metastore, db, gone)] if gone else []
        again = listed | {_object(row) for row in ended}
        after_s = (read.read_s or 0.0) - SUCCEEDED_S
        kept = [row for row in last.succeeded if (row.since_s or 0.0) > after_s and _object(row) not in again]
        return replace(read, succeeded=(*ended, *kept)[:LISTED_MAX])


def _object(row: CompactionRow) -> Object:
    return row.table.rpartition(".")[2], row.partition or ""


def build_watch(
    runtime: Runtime, target: str, policies: Callable[[], Sequence[str]]
) -> tuple[Job, Callable[[], tuple[CompactionStatus, ...]]]:
    """Return the loop of a target, and the function that returns its status. Opens nothing."""
    watch = CompactionWatch(runtime, target, policies)
    return Job(f"compactions:{target}", watch.run), watch.status
