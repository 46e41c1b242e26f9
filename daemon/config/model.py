"""The class of the whole configuration: the shared sections, and those that capabilities add.

It refuses unknown keys, so that a misspelled setting never means "the default". The rules between two
sections are in the capabilities' ``crosscheck`` modules, so that one wrong field does not hide them. These
classes generate docs/CONFIG.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from pydantic import Field, SecretStr, ValidationError, create_model

from daemon.config.fields import Name
from daemon.config.section import ConfigSection, Section
from daemon.config.settings.clusters import KafkaConfig, SourceConfig, TargetConfig
from daemon.config.settings.daemons import DaemonsConfig
from daemon.config.settings.policies import PolicyConfig, PolicyPatternConfig
from daemon.config.settings.process import (
    DocsConfig,
    FilesConfig,
    HttpConfig,
    LogsConfig,
    MetricsConfig,
    StateConfig,
    SupervisorConfig,
)


class Config(Section):
    """The shared sections; the class that ``compose`` returns has those of all capabilities as well."""

    sources: dict[Name, SourceConfig] = Field(
        default={}, max_length=64, description="Clusters to follow, by name."
    )
    targets: dict[Name, TargetConfig] = Field(
        default={}, max_length=64, description="Clusters that hold replicas, by name."
    )
    policies: dict[Name, PolicyConfig] = Field(
        default={}, max_length=1000, description="Databases to replicate, with their targets, by name."
    )
    policy_patterns: dict[Name, PolicyPatternConfig] = Field(
        default={},
        max_length=64,
        description="Policies for all databases that match patterns, by name; each has the policy "
        "NAME.DATABASE.",
    )
    kafka: KafkaConfig | None = Field(default=None, description="The broker; required if there is a source.")
    daemons: DaemonsConfig = Field(
        default=DaemonsConfig(), description="How several daemons divide the policies."
    )
    state: StateConfig = Field(default=StateConfig(), description="The daemon's state.")
    http: HttpConfig = Field(default=HttpConfig(), description="The site, the JSON API, probes and metrics.")
    metrics: MetricsConfig = Field(default=MetricsConfig(), description="Metrics for Prometheus.")
    logs: LogsConfig = Field(default=LogsConfig(), description="The log on standard output.")
    files: FilesConfig = Field(default=FilesConfig(), description="Copying of files between the clusters.")
    supervisor: SupervisorConfig = Field(
        default=SupervisorConfig(), description="Restarts, and the shutdown of the process."
    )
    docs: DocsConfig = Field(default=DocsConfig(), description="Address of the documentation.")

    def find_policy(self, name: str) -> PolicyConfig | None:
        """Return the settings of a policy, including a policy of a pattern (``PATTERN.DATABASE``)."""
        pattern, dot, database = name.partition(".")
        if not dot:
            return self.policies.get(name)
        patterns = self.policy_patterns.get(pattern)
        if patterns is None or not patterns.covers(database) or self._names_explicitly(patterns, database):
            return None
        return patterns.policy_of(database)

    def policy(self, name: str) -> PolicyConfig:
        """Return the settings of an existing policy."""
        policy = self.find_policy(name)
        assert policy is not None, f"no policy {name!r}"
        return policy

    def name_on_target(self, source: str, target: str, database: str) -> str:
        """Return the name on ``target`` of a database of ``source``: the one that a policy sets, or the same
        name.
        """
        for policy in self.policies.values():
            if (policy.source, policy.target, policy.database) == (source, target, database):
                return policy.replica_database
        for pattern in self.policy_patterns.values():
            if (pattern.source, pattern.target) == (source, target) and pattern.covers(database):
                return pattern.name_on_target(database)
        return database

    def find_policies(self, source: str, target: str, database: str) -> Iterator[tuple[str, PolicyConfig]]:
        """Yield the policies that replicate a database of ``source`` to ``target``, with their names."""
        ends = (source, target, database)
        for name, policy in self.policies.items():
            if ends == (policy.source, policy.target, policy.database):
                yield name, policy
        for name, pattern in self.policy_patterns.items():
            if ends[:2] == (pattern.source, pattern.target):
                own_policy = None
                with suppress(ValidationError):  # a name that is too long on the target
                    own_policy = self.find_policy(f"{name}.{database}")
                if own_policy is not None:
                    yield f"{name}.{database}", own_policy

    def _names_explicitly(self, pattern: PolicyPatternConfig, database: str) -> bool:
        """Whether an explicit policy replicates the database to the same target. It takes precedence over
        patterns.
        """
        ends = (pattern.source, pattern.target, database)
        return any(ends == (each.source, each.target, each.database) for each in self.policies.values())

    def secrets(self) -> tuple[str, ...]:
        """Return the text of every secret, so that the logs can mask them."""
        return tuple(_secrets(self))


def compose(sections: Iterable[ConfigSection[Any]]) -> type[Config]:
    """Return the class of the configuration with the shared sections and ``sections``."""
    fields: dict[str, Any] = {section.key: (section.annotation, section.field) for section in sections}
    return create_model("Config", __base__=Config, __doc__="Everything.", **fields)


def _secrets(value: object) -> Iterator[str]:
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case Section():
            for name in type(value).model_fields:
                yield from _secrets(getattr(value, name))
        case dict():
            for inner in value.values():
                yield from _secrets(inner)
        case list() | tuple():
            for inner in value:
                yield from _secrets(inner)
