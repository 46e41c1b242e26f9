"""The case of replay: the time per event for Tideline's own work, without waits.

Real events of a real source are replayed on a real target by the projection that the daemon runs, with its
state in SQLite. The case subtracts from the wall time the calls of both metastore clients (including the
packing of requests), the submission of copies, and the wait for them. Tideline's own work remains: decisions,
the write-id mapping, building requests, and committing the position to disk.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from bench.events.environment import make_name, say
from bench.events.writer import Writer
from bench.report import Row, row
from dev.fixtures.notifications import read_events
from dev.stack.endpoints import Endpoints
from handlers.files.copying.copies import Copied, Copier, CopyTask
from handlers.files.copying.handles import CopyHandle
from handlers.files.copying.pool import CopyPool
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.metastore.calls import AnyCall
from handlers.metastore.client import Metastore
from handlers.replication.context import Context
from handlers.replication.loading.bootstrap import begin_bootstrap
from handlers.replication.observer import SilentObserver
from handlers.replication.policy.policy import Policy
from handlers.replication.projection import ReplicationProjection
from handlers.replication.target.target_position import TargetPosition
from state.store.sqlite import SqliteStore


R = TypeVar("R")
BATCH_EVENTS: Final = 500
"""The size of the batches that the consumer passes."""


class Stopwatch:
    """Adds up the seconds spent in its ``with`` blocks. Use it from one thread only."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began_s = 0.0

    def __enter__(self) -> None:
        self._began_s = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._began_s


class TimedMetastore(Metastore):
    """A metastore client that measures its calls with a stopwatch."""

    calls: Stopwatch

    def clone(self, *, guard: Callable[[], None] | None = None) -> TimedMetastore:
        """Return another client with the same stopwatch."""
        made = super().clone(guard=guard)
        made.calls = self.calls
        return made

    def _invoke(self, call: AnyCall[R], *arguments: Any) -> R:
        with self.calls:
            return super()._invoke(call, *arguments)


class TimedPool(CopyPool):
    """A copy pool that measures with a stopwatch how long its caller waits."""

    def __init__(self, copier: Copier, waits: Stopwatch) -> None:
        super().__init__(copier)
        self._waits = waits

    def submit(self, task: CopyTask) -> CopyHandle:
        """Queue a copy."""
        with self._waits:
            return super().submit(task)

    def wait(self, handles: Iterable[CopyHandle], timeout_s: float | None = None) -> list[Copied]:
        """Wait for copies."""
        with self._waits:
            return super().wait(handles, timeout_s)


def cases(endpoints: Endpoints, *, quick: bool) -> Iterator[Row]:
    inserts = 50 if quick else 300
    say(f"replay_overhead: {inserts} transactions")
    db = make_name("overhead")
    calls, copies = Stopwatch(), Stopwatch()
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as directory:
        source = timed_metastore(endpoints.source.metastore, calls)
        projection = build(endpoints, source, db, Path(directory) / "state.db", copies)
        fill(endpoints.source.metastore, db, inserts)
        position = projection.open()
        events = read_events(source, position.event_id)
        calls.seconds = copies.seconds = 0.0
        began_s, cpu_s = time.perf_counter(), time.thread_time()
        for at in range(0, len(events), BATCH_EVENTS):
            projection.apply(events[at : at + BATCH_EVENTS])
        wall_s, cpu_s = time.perf_counter() - began_s, time.thread_time() - cpu_s
        projection.close()
    own_s = wall_s - calls.seconds - copies.seconds
    per_event_ms = 1_000 / len(events)
    yield row("replay_overhead", own_s * per_event_ms, "ms/event", at_most=1)
    yield row("replay_metastore_calls", calls.seconds * per_event_ms, "ms/event")
    yield row("replay_copies", copies.seconds * per_event_ms, "ms/event")
    yield row("replay_cpu", cpu_s * per_event_ms, "ms/event")


def fill(uri: str, db: str, inserts: int) -> None:
    """Create a database, a table and transactions with three notifications and one write event each."""
    writer = Writer(uri, db)
    writer.create()
    for _ in range(inserts):
        writer.insert()
    writer.close()


def timed_metastore(uri: str, calls: Stopwatch) -> TimedMetastore:
    """Return a client whose calls are measured with the stopwatch."""
    client = TimedMetastore(uri)
    client.calls = calls
    return client


def build(
    endpoints: Endpoints, source: TimedMetastore, db: str, state: Path, copies: Stopwatch
) -> ReplicationProjection:
    """Return the projection of a bootstrapped policy; its calls and copies are timed."""
    target = timed_metastore(endpoints.target.metastore, source.calls)
    policy = Policy(name=db, source_db=db, target_db=f"{db}_replica")
    file_systems = open_file_systems()
    roots = AllowedRoots.of(
        Path(root).as_uri() for root in (endpoints.source.warehouse, endpoints.source.cmroot)
    )
    store = SqliteStore(state, schema_version=1)
    position = TargetPosition(target, policy)
    context = Context.between(
        source,
        position,
        policy,
        copies=TimedPool(Copier(file_systems, roots, guard=position.require_held), copies),
        files=file_systems,
        observer=SilentObserver(),
    )
    context = replace(context, lanes=0)  # the stopwatch measures one thread
    begin_bootstrap(source=source, target=target, policy=policy, store=store)
    return ReplicationProjection(source_name="bench", context=context, store=store)
