"""The sampler: verifies the tables of one policy in turn, continuously and at a limited rate.

It has its own thread, and only reads, so it never delays replay. It verifies the tables in rounds, each in a
new random order, so that frequent restarts do not always leave out the same tables. A difference stays in the
status until a later verification finds the table equal.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

import structlog

from daemon.capability import Runtime
from daemon.process.loops.heartbeat import Heartbeat, Pulse, wait
from daemon.process.loops.loop import Job
from daemon.replica.loop import projection_name
from daemon.replica.shared import SharedResources
from daemon.replica.verification.following import ReplicaFollowing, known_state
from daemon.replica.verification.session import open_verifier
from daemon.replica.verification.status import LISTED_MAX, SHOWN_MAX, DifferingTable, SamplerStatus
from daemon.status.model import ENDED, NEW
from handlers.replication.verification.findings import Outcome, TableResult
from handlers.replication.verification.verifier import Verifier


log = structlog.get_logger(__name__)

_HOUR_S: Final = 3600.0


def build_sampler(runtime: Runtime, policy: str, shared: SharedResources) -> tuple[Job, Ledger]:
    """Return the loop of a policy's sampler, and its outcomes. Opens nothing."""
    sampler = Sampler(runtime, policy, shared)
    return Job(f"verification:{policy}", sampler.run), sampler.ledger


class Schedule:
    """Chooses the next table, and the time of its verification."""

    def __init__(
        self, interval_s: float, share_per_hour: float, shuffle: Callable[[list[str]], None]
    ) -> None:
        self._interval_s = interval_s
        self._share = share_per_hour
        self._shuffle = shuffle
        self._round: deque[str] = deque()

    @property
    def is_round_over(self) -> bool:
        """Whether the next table belongs to a new round."""
        return not self._round

    def start_round(self, names: list[str]) -> None:
        """Begin a round over all tables."""
        order = list(names)
        self._shuffle(order)
        self._round = deque(order)

    def take(self) -> str | None:
        """Return the next table; None if there is none."""
        return self._round.popleft() if self._round else None

    def pause_s(self, tables: int) -> float:
        """Return the pause between two tables, which follows from the number of tables and the share to
        verify per hour.
        """
        return max(self._interval_s, _HOUR_S / (self._share * max(1, tables)))


@dataclass(slots=True)
class Ledger:
    """The outcomes of one policy's tables, for status and metrics."""

    policy: str
    db: str
    clock: Callable[[], float] = time.time
    verified: int = 0
    busy: int = 0
    verified_s: dict[str, float] = field(default_factory=dict)
    """The time at which each table was last verified or, before that, first seen."""
    differing: dict[str, DifferingTable] = field(default_factory=dict)

    def see(self, names: list[str]) -> None:
        """Record which tables exist; forget all others."""
        now_s = self.clock()
        self.verified_s = {name: self.verified_s.get(name, now_s) for name in names}
        self.differing = {name: each for name, each in self.differing.items() if name in self.verified_s}

    def add(self, result: TableResult) -> None:
        """Record an outcome. A busy or failed table keeps its earlier outcome."""
        if result.outcome is Outcome.BUSY:
            self.busy += 1
            return
        if result.outcome is Outcome.FAILED:
            return
        now_s = self.clock()
        self.verified += 1
        self.verified_s[result.table] = now_s
        if result.outcome is Outcome.DIFFERS:
            self.differing[result.table] = DifferingTable(
                f"{self.db}.{result.table}",
                result.event_id,
                int(now_s),
                result.difference_count,
                str(result.differences[0]),
                tuple(map(str, result.differences[:SHOWN_MAX])),
            )
        else:
            self.differing.pop(result.table, None)

    def status(self) -> SamplerStatus:
        """Return the status of the sampler. Thread-safe."""
        differing = dict(self.differing)
        verified_s = dict(self.verified_s)
        tables = tuple(differing[name] for name in sorted(differing)[:LISTED_MAX])
        oldest_s = self.clock() - min(verified_s.values()) if verified_s else None
        return SamplerStatus(self.policy, self.verified, self.busy, len(differing), oldest_s, tables)


class Sampler:
    """The sampler of one policy."""

    def __init__(self, runtime: Runtime, policy: str, shared: SharedResources) -> None:
        self._runtime = runtime
        self._shared = shared
        self._policy = policy
        self._settings = runtime.config.policy(policy)
        sampling = self._settings.verification
        self._schedule = Schedule(
            sampling.interval_s, sampling.tables_per_hour_share, random.SystemRandom().shuffle
        )
        self.ledger = Ledger(policy, self._settings.database)

    def run(self, heartbeat: Heartbeat) -> None:
        """Verify one table after another until a stop request.

        Raises errors of the metastores and file systems.
        """
        pulse = Pulse()
        pulse.connect(heartbeat)
        with ExitStack() as stack:
            verifier = self._open(stack, heartbeat, pulse)
            heartbeat.following()
            while not heartbeat.stopping.is_set():
                pause_s = self._settings.verification.interval_s
                if self._has_replica():
                    pause_s = self._schedule.pause_s(len(self._verify_next(verifier)))
                heartbeat.progress()
                wait(heartbeat, pause_s)

    def _has_replica(self) -> bool:
        """Whether the policy has a replica that must equal its source."""
        views = self._runtime.status().projections
        name = projection_name(self._policy)
        state = next((view.state for view in views if view.name == name), None)
        return state not in {NEW, *ENDED}

    def _open(self, stack: ExitStack, heartbeat: Heartbeat, pulse: Pulse) -> Verifier:
        config, metastores = self._runtime.config, self._shared.metastores
        source = metastores.source(self._settings.source, pulse.beat)
        target = metastores.target(self._settings.target, pulse.beat)
        following = ReplicaFollowing(
            target,
            self._settings.replica_database,
            lambda: known_state(self._runtime.status(), self._policy),
            pause=lambda pause_s: wait(heartbeat, pause_s),
            is_stopping=heartbeat.stopping.is_set,
        )
        return stack.enter_context(
            open_verifier(config, self._policy, (source, target), following, beat=pulse.beat)
        )

    def _verify_next(self, verifier: Verifier) -> list[str]:
        """Verify the next table, and return the names of all tables."""
        names = verifier.table_names() if self._schedule.is_round_over else sorted(self.ledger.verified_s)
        if self._schedule.is_round_over:
            self.ledger.see(names)
            self._schedule.start_round(names)
        name = self._schedule.take()
        if name is not None:
            result = verifier.verify_table(name)
            self._report(result)
            self.ledger.add(result)
        return names

    def _report(self, result: TableResult) -> None:
        if result.outcome is Outcome.DIFFERS:
            log.error(
                "the replica differs from its source",
                policy=self._policy,
                table=f"{self._settings.database}.{result.table}",
                event_id=result.event_id,
                differences=result.difference_count,
                first=str(result.differences[0]),
            )
