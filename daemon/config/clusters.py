"""Settings of the systems that the daemon connects to, and of policies: source and target clusters, the broker, what is replicated where.

Several capabilities use them, so they belong to none. A source may be relayed, replicated and cataloged, each without the others. The
catalog publishes timelines to a target under the names that policies give databases there.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from daemon.config.fields import (
    Bootstrap,
    Location,
    Locations,
    Name,
    ObjectName,
    Options,
    Secret,
    TablePatterns,
    ThriftUris,
    Topic,
)
from daemon.config.logins import AuthConfig
from daemon.config.section import Section
from daemon.config.spark import SparkConfig


class RelayConfig(Section):
    """How a source's notification log is published to its topic."""

    enabled: bool = Field(
        default=True,
        description="Whether this daemon publishes the source's log. Set it to false if another one does.",
    )
    start: Literal["current", "earliest"] | int = Field(
        default="current",
        union_mode="left_to_right",
        description="Where to begin if neither the topic nor the state has a position: 'current' (after the newest event), "
        "'earliest' (the oldest retained event) or an event id.",
    )
    batch_events: int = Field(
        default=1000, ge=1, le=100_000, description="Events requested in one metastore call."
    )
    reply_bytes_max: int = Field(
        default=512 * 1024 * 1024,
        ge=1024 * 1024,
        le=8 * 1024 * 1024 * 1024,
        description="Largest answer of the metastore that is read into memory. A larger one is requested again in smaller pieces; "
        "a single event above it is relayed without its content. Write events of a transaction are not held in memory and may be "
        "sixteen times as large.",
    )
    call_timeout_s: float = Field(
        default=60,
        gt=0,
        le=3600,
        description="Time for one call to the metastore, repetitions included. While write events arrive, it counts from the last byte.",
    )
    record_bytes_max: int = Field(
        default=524_288,
        ge=4096,
        le=16 * 1024 * 1024,
        description="Maximum size of a Kafka record; commits with more files are split into more parts.",
    )
    list_partitions: bool = Field(
        default=True,
        description="Whether the relay lists partitions that Hive left out of a transaction's write events, in databases that policies "
        "replicate. It needs read_roots and the settings of 'files'. Otherwise replicas list them, when a compaction may have "
        "removed the files.",
    )
    poll_min_s: float = Field(
        default=0.01,
        gt=0,
        le=3600,
        description="Pause after the first empty answer; it doubles up to poll_max_s.",
    )
    poll_max_s: float = Field(
        default=0.2,
        gt=0,
        le=600,
        description="Longest pause between two calls to an idle source, and so the longest delay of a new event.",
    )
    topic_retention_s: int = Field(
        default=604_800,
        ge=3600,
        description="Retention of the topic if the relay creates it (7 days).",
    )


class SourceConfig(Section):
    """A cluster whose changes are followed."""

    metastore: ThriftUris = Field(
        min_length=1, max_length=16, description="Addresses of the source's metastore, tried in this order."
    )
    auth: AuthConfig | None = Field(
        default=None, description="Login at the metastore; not given: the metastore does not require SASL."
    )
    topic: Topic = Field(
        description="Kafka topic of the source's events, with one partition. Letters, digits, '.', '_' and '-' are allowed."
    )
    format: Literal["auto", "tideline-1", "hms", "apiary", "apiary-sns"] = Field(
        default="auto", description="Format of the topic's records; 'auto' recognizes each record."
    )
    relay: RelayConfig = Field(default=RelayConfig(), description="How the notification log is published.")
    read_roots: Locations = Field(
        default=[],
        max_length=64,
        description="Locations that files may be copied from: the warehouse, the external locations and the change manager's "
        "root. Events name the files to copy, so this limits what a writer to the topic can make Tideline read. Required as soon as a "
        "policy uses the source.",
    )


class TargetConfig(Section):
    """A cluster that replicas are kept on."""

    metastore: ThriftUris = Field(
        min_length=1, max_length=16, description="Addresses of the target's metastore, tried in this order."
    )
    auth: AuthConfig | None = Field(
        default=None, description="Login at the metastore; not given: the metastore does not require SASL."
    )
    compactions_every_s: float = Field(
        default=60,
        ge=1,
        le=600,
        description="Pause between two readings of the compactions of the target's databases, which the status shows. A reading costs "
        "five small calls for each policy, and one for each table whose compaction failed.",
    )


class KafkaConfig(Section):
    """The broker that holds the sources' topics."""

    bootstrap: Bootstrap = Field(description="Comma-separated list of brokers as host:port.")
    options: Options = Field(
        default={},
        description="Further settings of librdkafka under their own names, such as security.protocol.",
    )
    secrets: dict[str, Secret] = Field(
        default={},
        description="Secret settings of librdkafka, such as sasl.password: {file: PATH} or {env: NAME}.",
    )
    dead_letter_topic: Topic = Field(
        default="tideline.dead-letters", description="Topic of dead letters: records that could not be used."
    )


class TablesConfig(Section):
    """Which tables of a database a policy covers."""

    include: TablePatterns = Field(
        default=["*"],
        min_length=1,
        max_length=1000,
        description="Patterns of table names ('*', '?', '[...]').",
    )
    exclude: TablePatterns = Field(
        default=[],
        max_length=1000,
        description="Patterns of tables that are not replicated; they take precedence over 'include'.",
    )


class VerificationConfig(Section):
    """The sampler of a policy, which compares its tables with those of the source in turn. It only reads."""

    tables_per_hour_share: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        description="Share of the policy's tables that is verified within an hour: 1 verifies every table once an hour, 0.04 about "
        "once a day, and 0 none.",
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
        description="Time from the start of one comparison with the source to the next. 0 copies only the files that events name.",
    )
    delete: bool = Field(
        default=False,
        description="Whether files that Tideline copied are removed on the target when they vanish at the source.",
    )
    workers: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Directories that are compared, and files that are copied, at the same time.",
    )
    bytes_per_s_max: int | None = Field(
        default=None,
        ge=1024,
        description="Bytes that these copies read in a second, comparisons included; no limit if not given.",
    )


class CopyJobsConfig(Section):
    """Copies of many files as Spark jobs, each in a child process; needs the extra 'flat'."""

    files_min: int = Field(
        default=10_000,
        ge=1,
        description="Number of files from which a job copies them. Counted are the files of a table, of 500 partitions of a table, or "
        "those of a cycle over external tables that differ. Fewer are copied in the daemon.",
    )
    bytes_min: int = Field(
        default=10 * 1024**3,
        ge=1,
        description="Number of bytes from which a job copies such files, even if they are few.",
    )
    files_at_once: int = Field(
        default=4, ge=1, le=64, description="Files that one Spark task copies at the same time."
    )
    bytes_per_s_max: int | None = Field(
        default=None,
        ge=1024,
        description="Bytes that all tasks of a job together read in a second; no limit if not given.",
    )
    spark: SparkConfig = Field(default=SparkConfig(), description="The driver and its executors.")


class PolicyRules(Section):
    """How a database is replicated."""

    source: Name = Field(description="Name of the source.")
    target: Name = Field(description="Name of the target.")
    tables: TablesConfig = Field(default=TablesConfig(), description="Which of its tables are replicated.")
    metadata_only: TablePatterns = Field(
        default=[],
        max_length=1000,
        description="Patterns of tables whose metadata is replicated without rows: no files, write ids and statistics. ['*'] for all "
        "tables of the policy.",
    )
    external_base: Location | None = Field(
        default=None,
        description="URI below which external tables are placed on the target (base, then the path at the source). Not given: "
        "the target's own default, and no copies of files that events do not name.",
    )
    external: ExternalConfig = Field(
        default=ExternalConfig(), description="Copies of the files of external tables."
    )
    copy_jobs: CopyJobsConfig | None = Field(
        default=None,
        description="Copies of many files as Spark jobs. Not given: all files are copied in the daemon.",
    )
    functions_dir: Location | None = Field(
        default=None,
        description="URI of a directory on the target below which the jars of functions are copied. Not given: functions with jars are "
        "not replicated, and reported.",
    )
    bootstrap: Literal["manual", "auto"] = Field(
        default="manual",
        description="How a new replica is bootstrapped: 'manual' by running 'tideline bootstrap POLICY' once, 'auto' by the daemon "
        "when it first opens the policy (for containers, where running a command is inconvenient).",
    )
    verification: VerificationConfig = Field(
        default=VerificationConfig(), description="Continuous comparison with the source."
    )
    on_failure: Literal["quarantine", "fail", "skip"] = Field(
        default="quarantine",
        description="What follows from a permanent failure of one table: 'quarantine' stops replicating the table, 'fail' stops "
        "the policy, 'skip' ignores the event and continues (the replica then differs).",
    )


class PolicyConfig(PolicyRules):
    """What is replicated where, under which name."""

    database: ObjectName = Field(description="Database of the source.")
    target_database: ObjectName | None = Field(
        default=None, description="Name of the database on the target; the same name if not given."
    )

    @property
    def replica_database(self) -> str:
        """Return the name of the database on the target."""
        return self.target_database or self.database
