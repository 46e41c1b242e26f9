"""Replicas as a capability: one loop for each policy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from daemon.capability import Capability, Command, Parts


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from daemon.capability import Runtime
    from daemon.config.document import Problem
    from daemon.config.model import Config
    from daemon.config.section import ConfigSection
    from daemon.consumer.shared.window import SharedEvent
    from daemon.replica.status.compactions import CompactionStatus
    from daemon.status.model import StatusSection


class Replica(Capability):
    """Keeps a replica of each policy's database."""

    heading = "Replicas"
    divides_policies = True
    commands = (
        Command(
            "bootstrap",
            "daemon.replica.commands.bootstrap",
            "Create the replica of a policy. Run once, before the daemon follows it.",
        ),
        Command(
            "verify",
            "daemon.replica.verification.commands",
            "Compare the replica of a policy with its source.",
        ),
        Command("limit", "daemon.replica.commands.limits", "Limit the copies of the running daemon."),
        Command("policy", "daemon.replica.commands.policies", "List and show the policies."),
        Command("release", "daemon.replica.commands.operations", "Follow a quarantined table again."),
        Command(
            "pause", "daemon.replica.commands.operations", "Stop applying events of a policy for a while."
        ),
        Command("resume", "daemon.replica.commands.operations", "Resume a paused policy."),
        Command(
            "external",
            "daemon.replica.external.commands",
            "List the directories of a policy's external tables.",
        ),
        Command(
            "copyjob",
            "daemon.replica.copy_jobs.commands",
            "Run a copy job; the daemon starts it.",
            is_internal=True,
        ),
        Command(
            "prune",
            "daemon.replica.commands.operations",
            "Drop the target's copies of tables that left a policy.",
        ),
        Command("compact", "daemon.replica.commands.compaction", "Queue or show compactions on the target."),
        Command(
            "promote",
            "daemon.replica.commands.endings",
            "End the replication of a policy and open its target database to writers.",
        ),
        Command("retire", "daemon.replica.commands.endings", "End the replication of a policy."),
    )

    def config_sections(self) -> Sequence[ConfigSection[Any]]:
        """Return the section ``bootstrap``."""
        from daemon.replica.settings import BOOTSTRAP

        return (BOOTSTRAP,)

    def status_sections(self) -> Sequence[StatusSection[Any]]:
        """Return the sections of replicas; each names its field in the status."""
        from daemon.replica.status.compactions import COMPACTIONS
        from daemon.replica.status.division import DAEMONS
        from daemon.replica.status.policy_sections import POLICY_SECTIONS
        from daemon.replica.verification.status import VERIFICATION

        return (*(each.section for each in POLICY_SECTIONS), VERIFICATION, COMPACTIONS, DAEMONS)

    def live_problems(self, config: Config) -> Iterable[Problem]:
        """Check the clusters of copy jobs, and whether rows that Spark writes reach the target."""
        from daemon.replica.copy_jobs.policy_jobs import copy_job_problems
        from daemon.replica.external.policy_cycles import spark_problems

        return [*copy_job_problems(config), *spark_problems(config)]

    def build(self, runtime: Runtime) -> Parts:
        """Return the replicas of all policies, and a loop for each pattern of databases, which adds further
        replicas.
        """
        from daemon.process.loops.loop import Job
        from daemon.replica.compaction_watch import build_watch
        from daemon.replica.http.limits import limit_routes
        from daemon.replica.http.pages import PolicySite, policy_pages
        from daemon.replica.http.policies import policy_list_routes
        from daemon.replica.http.promotion_page import promotion_page
        from daemon.replica.http.routes import policy_routes
        from daemon.replica.http.verifications import verification_routes
        from daemon.replica.loop import projection_name
        from daemon.replica.metrics import ReplicaMetrics
        from daemon.replica.replicas import Replicas, discovery_job, known_policies
        from daemon.replica.status.compactions import COMPACTIONS
        from daemon.replica.status.division import DAEMONS
        from daemon.replica.status.policy_sections import POLICY_SECTIONS
        from daemon.replica.verification.runs import VerificationRuns
        from daemon.replica.verification.status import VERIFICATION
        from daemon.replica.waits import replica_kind
        from daemon.status.reporter import SectionPart

        jobs: list[Job] = []
        watches: list[Callable[[], tuple[CompactionStatus, ...]]] = []
        replicas = Replicas(runtime, ReplicaMetrics(runtime.registry, runtime.projections))
        if not runtime.relays_only:
            for name in (*runtime.config.policies, *known_policies(runtime.config)):
                replicas.add(name, jobs.append)
            jobs += [discovery_job(runtime, pattern, replicas) for pattern in runtime.config.policy_patterns]
            policies = (*runtime.config.policies.values(), *runtime.config.policy_patterns.values())
            for target in sorted({policy.target for policy in policies}):
                job, status = build_watch(runtime, target, partial(replicas.on_target, target))
                jobs.append(job)
                watches.append(status)
            if policies:
                jobs.append(Job("requests", replicas.shared.inboxes.run))
        sections: list[SectionPart[Any]] = [
            *(SectionPart(each.section, partial(replicas.rows, each)) for each in POLICY_SECTIONS),
            SectionPart(VERIFICATION, lambda _: replicas.samplers()),
            SectionPart(COMPACTIONS, lambda _: tuple(each for read in watches for each in read())),
            SectionPart(DAEMONS, lambda _: replicas.division()),
        ]
        configured = replicas.projections()
        verifications = VerificationRuns(runtime.config, runtime.status)

        def recent(source: str) -> Sequence[SharedEvent]:
            return runtime.readers.of(source).recent()

        return Parts(
            jobs=jobs,
            projections=configured,
            later_projections=[lambda: replicas.projections()[len(configured) :]],
            sections=sections,
            wait_kinds=[] if runtime.relays_only else [replica_kind(runtime, replicas, projection_name)],
            routes=()
            if runtime.relays_only
            else (
                *policy_pages(PolicySite(runtime.status, runtime.sections, replicas.tables_of, recent)),
                promotion_page(runtime.config, runtime.status, recent),
                *policy_routes(runtime.config, runtime.audit),
                *policy_list_routes(runtime.config, runtime.status),
                *limit_routes(runtime.config, replicas.shared, runtime.audit, replicas.names),
                *verification_routes(verifications, replicas.names, runtime.audit),
            ),
            close=[verifications.close],
        )
