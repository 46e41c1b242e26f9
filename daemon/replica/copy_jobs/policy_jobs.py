"""Builds the copy jobs of a policy from its settings, and checks those of all policies.

``tideline config check --live`` checks that Spark is installed and the master's cluster answers. A driver
takes half a minute to find that out, and a bootstrap finds it out only at a table with many files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.config.document import problem_of_error
from daemon.process.redaction import redact
from daemon.replica.copy_jobs.commands import require_spark
from state.errors import TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from daemon.config.document import Problem
    from daemon.config.model import Config
    from daemon.replica.copy_jobs.runner import SparkJobs
    from handlers.files.copying.jobs import JobStatus
    from handlers.files.filesystems import FileSystems


def ignore_job(status: JobStatus) -> None:
    """Ignore the progress of a job."""


def build_jobs(
    config: Config, name: str, file_systems: FileSystems, changed: Callable[[JobStatus], None] = ignore_job
) -> SparkJobs | None:
    """Return the copy jobs of a policy, None if it does not use them; raise ConfigError without Spark."""
    policy = config.policy(name)
    if policy.copy_jobs is None:
        return None
    from daemon.replica.copy_jobs.runner import SparkJobs

    return SparkJobs(
        name,
        policy.copy_jobs,
        file_systems,
        options=config.files.all_options(),
        read_roots=config.sources[policy.source].read_roots,
        clean=redact,
        changed=changed,
    )


def copy_job_problems(config: Config, check: Callable[[str], None] | None = None) -> Iterator[Problem]:
    """Yield a problem for each policy whose copy jobs could not start. ``check`` raises for an unusable
    master.
    """
    sections = (
        ("policy", "policies", config.policies),
        ("policies", "policy_patterns", config.policy_patterns),
    )
    for kind, section, policies in sections:
        for name, policy in policies.items():
            if policy.copy_jobs is None:
                continue
            master = policy.copy_jobs.spark.master
            try:
                (check or require_cluster)(master)
            except TidelineError as error:
                key = f"{section}.{name}.copy_jobs.spark.master"
                yield problem_of_error(f"{kind} {name}", key, error, master)


def require_cluster(master: str) -> None:
    """Raise ConfigError if Spark, Java or Hadoop's configuration is missing, and Transient if the cluster
    does not answer.
    """
    require_spark()
    from streaming.driver.installation import require_installation
    from streaming.driver.masters import require_reachable

    require_installation()
    require_reachable(master)
