"""Builds the copy jobs of a policy from its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.process.redaction import Redactor


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.config.model import Config
    from daemon.replica.copy_jobs.runner import SparkJobs
    from handlers.files.copying.jobs import JobStatus
    from handlers.files.filesystems import FileSystems


def ignore_job(status: JobStatus) -> None:
    """Do nothing with the progress of a job."""


def build_jobs(
    config: Config, name: str, file_systems: FileSystems, changed: Callable[[JobStatus], None] = ignore_job
) -> SparkJobs | None:
    """Return the jobs of a policy, None if its settings have none; raise ConfigError where Spark is not installed."""
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
        clean=Redactor(config.secrets()).text,
        changed=changed,
    )
