"""Copy jobs on a real Spark, with JVMs that start quickly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from daemon.config.settings.policies import CopyJobsConfig
from daemon.replica.copy_jobs.runner import SparkJobs
from handlers.files.systems.schemes import open_file_systems


JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def spark_jobs(
    read_roots: Sequence[str],
    *,
    master: str = "local[2]",
    spark: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, object]] | None = None,
    **settings: Any,
) -> SparkJobs:
    """Return jobs for every number of files, on the Spark ``master``; ``options`` are those of file
    systems."""
    conf = {"spark.driver.extraJavaOptions": JAVA, "spark.executor.extraJavaOptions": JAVA}
    given = {"master": master, "driver_memory": "512m", "conf": conf, **(spark or {})}
    chosen = CopyJobsConfig.model_validate({"files_min": 1, "spark": given, **settings})
    return SparkJobs(
        "test", chosen, open_file_systems(options), options=options or {}, read_roots=list(read_roots)
    )
