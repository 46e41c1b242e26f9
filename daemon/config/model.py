"""The configuration as a whole: the sections that several capabilities share, and the composition with those of each capability.

Unknown keys are refused, so that a misspelled setting never means "the default". Rules between two sections are checked in the
capabilities' ``crosscheck`` modules, so that one wrong field does not hide them. docs/CONFIG.md is generated from these classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field, SecretStr, create_model

from daemon.config.clusters import KafkaConfig, PolicyConfig, SourceConfig, TargetConfig
from daemon.config.fields import Name
from daemon.config.process import FilesConfig, HttpConfig, LogsConfig, StateConfig, SupervisorConfig
from daemon.config.section import Section


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from daemon.config.section import ConfigSection


class Config(Section):
    """The shared sections. The class that files are read into, ``compose``, has those of all capabilities as well."""

    sources: dict[Name, SourceConfig] = Field(
        default={}, max_length=64, description="Clusters whose changes are followed, by name."
    )
    targets: dict[Name, TargetConfig] = Field(
        default={}, max_length=64, description="Clusters that hold replicas, by name."
    )
    policies: dict[Name, PolicyConfig] = Field(
        default={}, max_length=256, description="What is replicated where, by name."
    )
    kafka: KafkaConfig | None = Field(
        default=None, description="The broker; required as soon as there is a source."
    )
    state: StateConfig = Field(default=StateConfig(), description="The state that the daemon keeps.")
    http: HttpConfig = Field(default=HttpConfig(), description="Probes, metrics and the status page.")
    logs: LogsConfig = Field(default=LogsConfig(), description="What is written to standard output.")
    files: FilesConfig = Field(default=FilesConfig(), description="Copying of files between the clusters.")
    supervisor: SupervisorConfig = Field(
        default=SupervisorConfig(), description="Restarts and the end of the process."
    )

    def secrets(self) -> tuple[str, ...]:
        """Return every secret's text, for the logs to leave out."""
        return tuple(_secrets(self))


def compose(sections: Iterable[ConfigSection[Any]]) -> type[Config]:
    """Return the class of the configuration with ``sections`` beside the shared ones."""
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
