"""The settings as a whole, one class per section: what each means, its unit (in its name), its default and its limits.

Sections stand with what they are about: ``replication``, ``catalog``, ``flat``, ``keylog``, ``mining`` and ``process``; here is what
puts them together. Unknown keys are refused, so that a misspelt setting never means "the default". What concerns two sections at
once is checked in ``crosscheck``, so that one wrong field does not hide it. docs/CONFIG.md is written from these classes.
"""

from __future__ import annotations

from pydantic import Field

from daemon.catalog.settings import CatalogConfig, FactConfig
from daemon.config.clusters import PolicyConfig, SourceConfig, TargetConfig
from daemon.config.fields import Bootstrap, Name, Options, Secret, Topic
from daemon.config.process import FilesConfig, HttpConfig, LogsConfig, StateConfig, SupervisorConfig
from daemon.config.section import Section
from daemon.flat.settings import FlatConfig
from daemon.keys.mining_settings import MiningConfig
from daemon.keys.settings import KeylogConfig


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
