"""The settings, one class per section: what each means, its unit (in its name), its default and its limits.

Unknown keys are refused, so that a misspelt setting never means "the default". What concerns two sections at once is
checked in ``crosscheck``, so that one wrong field does not hide it. docs/CONFIG.md is written from these classes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from daemon.config.catalog import CatalogConfig, FactConfig
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
from daemon.config.flat import FlatConfig
from daemon.config.keylog import KeylogConfig
from daemon.config.mining import MiningConfig
from daemon.config.section import Section


class RelayConfig(Section):
    """How a source's notification log is published to its topic."""

    enabled: bool = Field(
        default=True,
        description="Whether this daemon publishes the source's log; false where another one does.",
    )
    start: Literal["current", "earliest"] | int = Field(
        default="current",
        union_mode="left_to_right",
        description="Where to begin when neither the topic nor the state knows: 'current' (after the newest event), "
        "'earliest' (the oldest that is kept) or an event id.",
    )
    batch_events: int = Field(
        default=1000, ge=1, le=100_000, description="Events asked for in one metastore call."
    )
    record_bytes_max: int = Field(
        default=524_288,
        ge=4096,
        le=16 * 1024 * 1024,
        description="Size that no Kafka record exceeds; commits with more files have more parts.",
    )
    poll_min_s: float = Field(
        default=0.01,
        gt=0,
        le=60,
        description="Pause after the first empty answer; it doubles up to poll_max_s.",
    )
    poll_max_s: float = Field(
        default=0.2,
        gt=0,
        le=600,
        description="Longest pause between two calls to an idle source: what a new event waits at most.",
    )
    topic_retention_s: int = Field(
        default=604_800,
        ge=3600,
        description="Retention of the topic where the relay has to create it (7 days).",
    )


class SourceConfig(Section):
    """A cluster whose changes are followed."""

    metastore: ThriftUris = Field(
        min_length=1, max_length=16, description="Addresses of the source's metastore, asked in this order."
    )
    topic: Topic = Field(
        description="Kafka topic of the source's events; one partition. Names: letters, digits, '.', '_', '-'."
    )
    format: Literal["auto", "tideline-1", "hms", "apiary", "apiary-sns"] = Field(
        default="auto", description="Wire format of the topic's records; 'auto' recognises each record."
    )
    relay: RelayConfig = Field(default=RelayConfig(), description="How the notification log is published.")
    read_roots: Locations = Field(
        default=[],
        max_length=64,
        description="Places that files may be copied from. Whoever may write to the topic names the files to copy: list "
        "the warehouse, the external locations and the change manager's root. Wanted as soon as a policy uses the source.",
    )


class TargetConfig(Section):
    """A cluster that replicas are kept on."""

    metastore: ThriftUris = Field(
        min_length=1, max_length=16, description="Addresses of the target's metastore, asked in this order."
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
        description="Patterns of tables that are left out; they win over 'include'.",
    )


class PolicyConfig(Section):
    """What is replicated where, under which name."""

    source: Name = Field(description="Name of the source.")
    target: Name = Field(description="Name of the target.")
    database: ObjectName = Field(description="Database of the source.")
    target_database: ObjectName | None = Field(
        default=None, description="Its name on the target; the same where not given."
    )
    tables: TablesConfig = Field(default=TablesConfig(), description="Which of its tables.")
    external_base: Location | None = Field(
        default=None,
        description="URI below which external tables are put on the target (base and path at the source); not given: the "
        "target's own default.",
    )
    bootstrap: Literal["manual", "auto"] = Field(
        default="manual",
        description="Who makes the replica when it is new: 'manual' wants 'tideline bootstrap POLICY' once; with 'auto' the "
        "daemon does it when it first opens the policy (where a command beside the daemon is in the way: containers).",
    )
    on_failure: Literal["quarantine", "fail", "skip"] = Field(
        default="quarantine",
        description="What a permanent failure of one table does: 'quarantine' stops following that table, 'fail' stops the "
        "policy, 'skip' leaves out the event and goes on (the replica then differs).",
    )

    @property
    def replica_database(self) -> str:
        """The database's name on the target."""
        return self.target_database or self.database


class KafkaConfig(Section):
    """The broker that holds the sources' topics."""

    bootstrap: Bootstrap = Field(description="Addresses of brokers, host:port, separated by commas.")
    options: Options = Field(
        default={},
        description="Further settings of librdkafka by their own names, such as security.protocol.",
    )
    secrets: dict[str, Secret] = Field(
        default={},
        description="Settings of librdkafka that are secret, such as sasl.password: {file: PATH} or {env: NAME}.",
    )
    dead_letter_topic: Topic = Field(
        default="tideline.dead-letters", description="Topic of records that could not be used."
    )


class StateConfig(Section):
    """What the daemon remembers."""

    dir: Path = Field(
        default=Path("/var/lib/tideline"),
        description="Directory of positions and state, for one daemon only; on a local disk.",
    )


class HttpConfig(Section):
    """Probes, metrics and the status page; read-only, without secrets."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on; 0.0.0.0 for all.")
    port: int = Field(
        default=8470,
        ge=0,
        le=65535,
        description="Port; 0 takes a free one, which <state.dir>/http.json then tells.",
    )
    lag_ready_s: float = Field(default=300, gt=0, description="Lag above which /readyz says no.")


class LogsConfig(Section):
    """What is written to standard output."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least important level that is written."
    )
    format: Literal["auto", "json", "console"] = Field(
        default="auto", description="'auto' is 'console' on a terminal and 'json' elsewhere."
    )
    repeat_s: float = Field(
        default=60, ge=0, description="How long a repeated warning or error is only counted; 0 writes each."
    )


class FilesConfig(Section):
    """Copying of files between the clusters."""

    copy_workers: int = Field(
        default=8, ge=1, le=256, description="Files copied at the same time, per policy."
    )
    options: dict[Name, Options] = Field(
        default={},
        description="Per file system scheme (hdfs, s3a, gs, abfs): settings passed on to pyarrow by their own names.",
    )
    secrets: dict[Name, dict[str, Secret]] = Field(
        default={},
        description="Per scheme: settings that are secret, such as secret_key: {file: PATH} or {env: NAME}.",
    )

    def all_options(self) -> dict[str, dict[str, object]]:
        """Return options and secrets per scheme, together."""
        merged: dict[str, dict[str, object]] = {scheme: dict(given) for scheme, given in self.options.items()}
        for scheme, secrets in self.secrets.items():
            known = {key: secret.get_secret_value() for key, secret in secrets.items()}
            merged.setdefault(scheme, {}).update(known)
        return merged


class SupervisorConfig(Section):
    """Restarts and the end of the process."""

    backoff_min_s: float = Field(default=0.5, gt=0, le=60, description="Shortest pause after a failure.")
    backoff_max_s: float = Field(default=60, gt=0, le=3600, description="Longest pause between two attempts.")
    attempts_max: int = Field(
        default=8,
        ge=1,
        le=1000,
        description="Failures in a row after which what the other side refuses is not tried again.",
    )
    drain_s: float = Field(
        default=20, gt=0, le=600, description="Time that the loops have to end after SIGTERM."
    )
    heartbeat_max_s: float = Field(
        default=300, ge=10, description="Age of a loop's last heartbeat above which /livez says no."
    )


class Config(Section):
    """Everything."""

    sources: dict[Name, SourceConfig] = Field(
        default={}, max_length=64, description="Clusters whose changes are followed, by name."
    )
    targets: dict[Name, TargetConfig] = Field(
        default={}, max_length=64, description="Clusters that replicas are kept on, by name."
    )
    policies: dict[Name, PolicyConfig] = Field(
        default={}, max_length=256, description="What is replicated where, by name."
    )
    catalog: dict[Name, CatalogConfig] = Field(
        default={}, max_length=64, description="Timelines and partition indexes, by source."
    )
    facts: dict[Name, FactConfig] = Field(
        default={}, max_length=10_000, description="Tables that are covered together, by name."
    )
    flat: dict[Name, FlatConfig] = Field(default={}, max_length=64, description="Flat event tables, by name.")
    keylog: KeylogConfig = Field(
        default=KeylogConfig(), description="Where it is recorded who asked for which key."
    )
    mining: MiningConfig = Field(
        default=MiningConfig(), description="How keys are found in the queries that people run."
    )
    kafka: KafkaConfig | None = Field(
        default=None, description="The broker; wanted as soon as there is a source."
    )
    state: StateConfig = Field(default=StateConfig(), description="What the daemon remembers.")
    http: HttpConfig = Field(default=HttpConfig(), description="Probes, metrics and the status page.")
    logs: LogsConfig = Field(default=LogsConfig(), description="What is written to standard output.")
    files: FilesConfig = Field(default=FilesConfig(), description="Copying of files between the clusters.")
    supervisor: SupervisorConfig = Field(
        default=SupervisorConfig(), description="Restarts and the end of the process."
    )

    def secrets(self) -> tuple[str, ...]:
        """Return every secret's text, for the logs to leave out."""
        found = [*self.kafka.secrets.values()] if self.kafka else []
        found += [self.keylog.password] if self.keylog.password else []
        found += [secret for scheme in self.files.secrets.values() for secret in scheme.values()]
        streams = [flat.source for flat in self.flat.values() if flat.source is not None]
        found += [secret for stream in streams for secret in stream.secrets.values()]
        return tuple(secret.get_secret_value() for secret in found)
