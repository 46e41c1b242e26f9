"""The replicas of a daemon: those that it starts with, and those of databases that it finds while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.replica.loop import build_replica
from daemon.replica.verification.sampler import build_sampler
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.capability import Runtime
    from daemon.process.supervisor import Job
    from daemon.replica.loop import ReplicaPart
    from daemon.replica.metrics import ReplicaMetrics
    from daemon.replica.status.policy_sections import PolicySection
    from daemon.replica.verification.status import SamplerStatus
    from daemon.status.reporter import ProjectionPart, StatusContext


class Replicas:
    """Replicas are added by one thread at a time, and read by any."""

    def __init__(self, runtime: Runtime, metrics: ReplicaMetrics) -> None:
        self._runtime = runtime
        self._metrics = metrics
        self._targets: dict[tuple[str, str], str] = {}
        # Replaced as a whole, because HTTP threads iterate over them.
        self.all: tuple[ReplicaPart, ...] = ()
        self.samplers: tuple[Callable[[], SamplerStatus], ...] = ()

    def add(self, name: str, start: Callable[[Job], None]) -> None:
        """Add the replica of policy ``name`` and pass its loops to ``start``; do nothing if it is there.

        Raises ConfigError if another policy has the same target database.
        """
        policy = self._runtime.config.policy(name)
        target = (policy.target, policy.replica_database)
        other = self._targets.setdefault(target, name)
        if other != name:
            raise ConfigError(
                f"is already the target of policy {other!r}",
                hint="Exclude the database from one of the two policies, or give it another name on the target.",
                key=f"{name}: target database",
                value=policy.replica_database,
            )
        projections = {replica.part.name for replica in self.all}
        replica = build_replica(self._runtime, name, self._metrics)
        if replica.part.name in projections:
            return
        start(replica.job)
        self.all = (*self.all, replica)
        if policy.verification.tables_per_hour_share:
            job, status = build_sampler(self._runtime, name)
            start(job)
            self.samplers = (*self.samplers, status)

    def on_target(self, target: str) -> tuple[str, ...]:
        """Return the names of the policies that replicate to ``target``."""
        names = (replica.part.name.partition(":")[2] for replica in self.all)
        return tuple(name for name in names if self._runtime.config.policy(name).target == target)

    def projections(self) -> tuple[ProjectionPart, ...]:
        """Return the projections of all replicas; each has a loop."""
        return tuple(replica.part for replica in self.all)

    def rows(self, section: PolicySection, _context: StatusContext) -> tuple[Any, ...]:
        """Return the rows of all policies in one section of the status."""
        return tuple(row for replica in self.all for row in replica.read(section))
