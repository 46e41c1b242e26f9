"""Lanes: threads that change the target's metastore while replay does something else.
All policies of a target share them (``Context.threads``).

A lane has no state. It gets a copy of the context with an empty mapping and empty entries, which are never
stored, and its own cache for one event. Replay's thread records the event's changes to the policy's state at
its turn (``work_ahead``). The empty mapping is correct, because only replay's thread changes a table with
open write ids. Like replay's own connection, a lane checks the claim of the target database before each
change.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace

from handlers.events import Event
from handlers.metastore.client import Metastore
from handlers.replication.context import Context
from handlers.replication.effects.effect_table import apply_effect
from handlers.replication.tables.quarantine import Quarantine
from handlers.replication.tables.table_loads import TableLoads
from handlers.replication.target.table_cache import TableCache
from handlers.structs.objects import Table
from state.transactions.write_id_mapping import WriteIdMapping


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a job in a lane."""

    table: Table | None
    """The target's table afterwards, as far as the lane knows it."""
    seconds: float
    queued_s: float
    """How long the events waited for a free lane."""


@dataclass(frozen=True, slots=True)
class Job:
    """Events that a lane applies with one call: a single event, or several joined ones."""

    events: Sequence[Event]
    future: Future[Done]


class Lanes:
    """Runs a limited number of changes of the target in parallel. Used by replay's thread."""

    def __init__(self, context: Context, count: int) -> None:
        self._context = context
        self._threads = context.threads.user(count)
        # One connection more than lanes is enough, and each is used by one lane at a time.
        self._clients = [context.target.clone() for _ in range(count)]
        self._unused = list(self._clients)

    def start(self, event: Event, events: Sequence[Event], table: Table | None) -> Job:
        """Apply ``event``, which stands for ``events``, in a lane;
        ``table`` is the target's table if replay has cached it.
        """
        return Job(events, self._threads.submit(self._apply, event, table, time.perf_counter()))

    def _apply(self, event: Event, table: Table | None, submitted: float) -> Done:
        target = self._unused.pop()
        try:
            cache = TableCache(target, self._context.policy)
            if table is not None:
                cache.put(event.table or "", table)
            started = time.perf_counter()
            apply_effect(event, self._build_context(target, cache))
            ended = time.perf_counter()
            return Done(cache.peek(event.table or ""), ended - started, started - submitted)
        finally:
            self._unused.append(target)

    def _build_context(self, target: Metastore, cache: TableCache) -> Context:
        tables = replace(
            self._context.tables,
            objects=cache,
            write_ids=WriteIdMapping(),
            quarantine=Quarantine(),
            loads=TableLoads(),
        )
        return replace(self._context, target=target, table_cache=cache, tables=tables)

    def finish(self, job: Job) -> Done | None:
        """Wait for a job that has begun;
        return None if it has not begun, which cancels it, or if it failed.
        """
        if job.future.cancel() or job.future.exception() is not None:
            return None
        return job.future.result()

    def stop(self, jobs: Sequence[Job]) -> None:
        """Cancel jobs that have not begun, and wait for the others."""
        wait([job.future for job in jobs if not job.future.cancel()])

    def close(self) -> None:
        """Wait until no lane works, and release the connections."""
        self._threads.close()
        for client in self._clients:
            client.close()
