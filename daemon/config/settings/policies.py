"""Settings of policies: sources, targets, names and modes of replication.

Several capabilities use them: the catalog publishes timelines to a target under the names that policies give
databases there.

A pattern stands for one policy per database, including those created later. Each has a position, a failure
domain and its own transactions. ``PATTERN.DATABASE`` is the policy of a database. Names in the configuration
have no dot, so there is no ambiguity, and the settings of such a policy follow from its name alone: no
command has to read the list of databases.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import Field

from daemon.config.fields import (
    BYTES_PER_S_MIN,
    DatabasePatterns,
    DatabaseTemplate,
    Location,
    Name,
    ObjectName,
    TablePatterns,
    is_object_name,
)
from daemon.config.section import Section, setting
from daemon.config.settings.spark import SparkConfig
from handlers.replication.policy.policy import ALL_TABLES, SYSTEM_DATABASES, Policy
from streaming.copyjob.share import FILES_AT_ONCE


class TablesConfig(Section):
    """Which tables of a database a policy covers."""

    include: TablePatterns = Field(
        default=[*ALL_TABLES],
        min_length=1,
        max_length=1000,
        description="Patterns of table names ('*', '?', '[...]').",
    )
    exclude: TablePatterns = Field(
        default=[],
        max_length=1000,
        description="Patterns of tables to exclude; they take precedence over 'include'.",
    )


class VerificationConfig(Section):
    """The sampler of a policy, which compares its tables with those of the source in turn. It only reads."""

    tables_per_hour_share: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        description="Share of the policy's tables to verify within an hour: 1 verifies every table "
        "once an hour, 0.04 about once a day, and 0 none.",
    )
    interval_s: float = Field(
        default=10.0,
        ge=0.01,
        le=86_400,
        description="Shortest pause between two tables, however many there are.",
    )


class ExternalConfig(Section):
    """Copies of the files of external tables, which change without events; they need external_base."""

    every_s: float = Field(
        default=300,
        ge=0,
        le=604_800,
        description="Interval between the starts of two comparisons with the source. With 0, only the files "
        "that events name are copied.",
    )
    delete: bool = Field(
        default=False,
        description="Whether Tideline removes its copies on the target when the files vanish at the source.",
    )
    workers: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Directories to compare, and files to copy, at the same time.",
    )
    bytes_per_s_max: int | None = Field(
        default=None,
        ge=BYTES_PER_S_MIN,
        description="Bytes per second that these copies read, including comparisons; default: no limit.",
    )


class CopyJobsConfig(Section):
    """Copies of many files as Spark jobs, each in a child process; needs the extra 'flat'."""

    files_min: int = Field(
        default=10_000,
        ge=1,
        description="Minimum number of files for a copy job; the daemon copies fewer files itself. The "
        "number is that of the files of a table, of 500 partitions of a table, or of the differing files in "
        "a cycle over external tables.",
    )
    bytes_min: int = Field(
        default=10 * 1024**3,
        ge=1,
        description="Minimum number of bytes for a copy job, even if the files are few.",
    )
    files_at_once: int = Field(
        default=FILES_AT_ONCE, ge=1, le=64, description="Files that each Spark task copies at the same time."
    )
    bytes_per_s_max: int | None = Field(
        default=None,
        ge=BYTES_PER_S_MIN,
        description="Bytes per second that all tasks of a job together read; default: no limit.",
    )
    spark: SparkConfig = Field(default=SparkConfig(), description="The driver and its executors.")


class PolicyRules(Section):
    """How to replicate a database."""

    source: Name = Field(description="Name of the source.")
    target: Name = Field(description="Name of the target.")
    tables: TablesConfig = Field(default=TablesConfig(), description="Tables of the database to replicate.")
    metadata_only: TablePatterns = Field(
        default=[],
        max_length=1000,
        description="Patterns of tables to replicate without rows: metadata only, without files, write ids "
        "and statistics. ['*'] for all tables of the policy.",
    )
    external_base: Location | None = Field(
        default=None,
        description="URI on the target below which external tables are placed (base, then the path at the "
        "source). Default: the location that the target chooses; then only files that events name are "
        "copied.",
    )
    external: ExternalConfig = Field(
        default=ExternalConfig(), description="How the files of external tables are copied."
    )
    copy_jobs: CopyJobsConfig | None = Field(
        default=None,
        description="Copies of many files as Spark jobs. Default: the daemon copies all files.",
    )
    bytes_per_s_max: int | None = Field(
        default=None,
        ge=BYTES_PER_S_MIN,
        description="Bytes per second that the daemon reads for the copies of this policy; default: no "
        "limit. See also files.bytes_per_s_max.",
    )
    functions_dir: Location | None = Field(
        default=None,
        description="URI of a directory on the target for the jars of functions. Default: functions with "
        "jars are not replicated, and the status reports them.",
    )
    bootstrap: Literal["manual", "auto"] = Field(
        default="manual",
        description="How a new replica is bootstrapped: 'manual' by running 'tideline bootstrap POLICY' "
        "once, 'auto' by the daemon when it first opens the policy (useful in containers).",
    )
    verification: VerificationConfig = Field(
        default=VerificationConfig(), description="Continuous comparison with the source."
    )
    on_failure: Literal["quarantine", "fail", "skip"] = setting(Policy, "on_failure")

    @property
    def copies_external(self) -> bool:
        """Whether cycles copy the files of external tables."""
        return self.external_base is not None and self.external.every_s > 0


class PolicyConfig(PolicyRules):
    """A database to replicate, with its target and its name there."""

    database: ObjectName = Field(description="Database of the source.")
    target_database: ObjectName | None = Field(
        default=None, description="Name of the database on the target; default: the same name."
    )

    @property
    def replica_database(self) -> str:
        """Return the name of the database on the target."""
        return self.target_database or self.database


class DatabasesConfig(Section):
    """Which databases of the source a pattern covers. Hive's own databases never are."""

    include: DatabasePatterns = Field(
        min_length=1, max_length=1000, description="Patterns of database names ('*', '?', '[...]')."
    )
    exclude: DatabasePatterns = Field(
        default=[],
        max_length=1000,
        description="Patterns of databases to exclude; they take precedence over 'include'.",
    )


class PolicyPatternConfig(PolicyRules):
    """Policies for all databases of the source that match patterns; each has the name NAME.DATABASE."""

    databases: DatabasesConfig = Field(description="Databases to replicate.")
    target_database: DatabaseTemplate = Field(
        default="{database}",
        description="Name of each database on the target; {database} is its name at the source.",
    )
    bootstrap: Literal["manual", "auto"] = Field(
        default="auto",
        description="How the replica of a new database is bootstrapped: 'auto' by the daemon, "
        "'manual' by running 'tideline bootstrap NAME.DATABASE' once.",
    )
    discover_s: float = Field(
        default=10.0,
        ge=0.1,
        le=3600,
        description="How often the daemon looks for new databases at the source.",
    )

    def covers(self, database: str) -> bool:
        """Whether the policy replicates a database of the source."""
        if database in SYSTEM_DATABASES or not is_object_name(database):
            return False
        if any(fnmatchcase(database, pattern) for pattern in self.databases.exclude):
            return False
        return any(fnmatchcase(database, pattern) for pattern in self.databases.include)

    def name_on_target(self, database: str) -> str:
        """Return the name that a database of the source has on the target."""
        return self.target_database.replace("{database}", database)

    def policy_of(self, database: str) -> PolicyConfig:
        """Return the policy of one database.

        Raises pydantic's ValidationError if its name on the target would be too long.
        """
        rules: dict[str, Any] = {name: getattr(self, name) for name in PolicyRules.model_fields}
        return PolicyConfig(**rules, database=database, target_database=self.name_on_target(database))
