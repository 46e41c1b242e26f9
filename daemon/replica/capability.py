"""Replicas as a capability: one loop for each policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.capability import Capability, Command, Parts


if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.capability import Runtime
    from daemon.config.section import ConfigSection
    from daemon.status.model import StatusSection


class Replica(Capability):
    """Keeps a replica of each policy's database."""

    commands = (
        Command(
            "bootstrap",
            "daemon.replica.commands.bootstrap",
            "Create the replica of a policy, once, before it is followed.",
        ),
        Command(
            "verify",
            "daemon.replica.verification.commands",
            "Compare the replica of a policy with its source.",
        ),
        Command(
            "release", "daemon.replica.commands.operations", "Let a quarantined table be followed again."
        ),
        Command(
            "pause", "daemon.replica.commands.operations", "Stop applying events of a policy for a while."
        ),
        Command("resume", "daemon.replica.commands.operations", "Resume a paused policy."),
        Command(
            "external",
            "daemon.replica.external.commands",
            "List the directories of a policy's external tables.",
        ),
        Command("prune", "daemon.replica.commands.pruning", "Drop tables on the target that left a policy."),
        Command(
            "compact", "daemon.replica.commands.compaction", "Queue compactions on the target, or show them."
        ),
        Command(
            "promote",
            "daemon.replica.commands.promotion",
            "End the replication of a policy and let writers use its target database.",
        ),
        Command("retire", "daemon.replica.commands.retirement", "End the replication of a policy."),
    )

    def config_sections(self) -> Sequence[ConfigSection[Any]]:
        """Return the section ``bootstrap``."""
        from daemon.replica.settings import BOOTSTRAP

        return (BOOTSTRAP,)

    def status_sections(self) -> Sequence[StatusSection[Any]]:
        """Return the sections ``points``, ``copies``, ``external``, ``loads``, ``left``, ``unreplicated`` and ``verification``."""
        from daemon.replica.external.section import EXTERNAL
        from daemon.replica.sections.copies import COPIES
        from daemon.replica.sections.left import LEFT
        from daemon.replica.sections.loads import LOADS
        from daemon.replica.sections.points import POINTS
        from daemon.replica.sections.unreplicated import UNREPLICATED
        from daemon.replica.verification.progress import VERIFICATION

        return (POINTS, COPIES, EXTERNAL, LOADS, LEFT, UNREPLICATED, VERIFICATION)

    def build(self, runtime: Runtime) -> Parts:
        """Return a projection for each policy, and a sampler for each one that is configured to have one."""
        from daemon.replica.external.section import EXTERNAL
        from daemon.replica.loop import build_replica
        from daemon.replica.metrics import ReplicaMetrics
        from daemon.replica.sections.copies import COPIES
        from daemon.replica.sections.left import LEFT
        from daemon.replica.sections.loads import LOADS
        from daemon.replica.sections.points import POINTS
        from daemon.replica.sections.unreplicated import UNREPLICATED
        from daemon.replica.verification.progress import VERIFICATION
        from daemon.replica.verification.sampler import build_sampler
        from daemon.status.reporter import SectionPart

        metrics = ReplicaMetrics(runtime.registry, runtime.projections)
        policies = () if runtime.relays_only else runtime.config.policies
        replicas = [build_replica(runtime, name, metrics) for name in policies]
        points = SectionPart(
            POINTS,
            lambda _: tuple(point for replica in replicas if (point := replica.point()) is not None),
        )
        copies = SectionPart(COPIES, lambda _: tuple(replica.copies() for replica in replicas))
        loads = SectionPart(LOADS, lambda _: tuple(load for replica in replicas for load in replica.loads()))
        left = SectionPart(LEFT, lambda _: tuple(each for replica in replicas for each in replica.left()))
        unreplicated = SectionPart(
            UNREPLICATED, lambda _: tuple(each for replica in replicas for each in replica.unreplicated())
        )
        external = SectionPart(EXTERNAL, lambda _: tuple(replica.external() for replica in replicas))
        sampled = [
            name for name in policies if runtime.config.policies[name].verification.tables_per_hour_share
        ]
        samplers = [build_sampler(runtime, name) for name in sampled]
        verification = SectionPart(VERIFICATION, lambda _: tuple(status() for _, status in samplers))
        return Parts(
            jobs=[*(replica.job for replica in replicas), *(job for job, _ in samplers)],
            projections=[replica.part for replica in replicas],
            sections=[points, copies, external, loads, left, unreplicated, verification],
        )
