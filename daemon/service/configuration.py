"""Composes the configuration from the sections of all capabilities, without importing their other modules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

from daemon.config import crosscheck
from daemon.config.load import ConfigReader
from daemon.config.model import Config, compose
from daemon.service.capabilities import CAPABILITIES


STARTS_NOTHING: Final = frozenset(
    {"targets", "kafka", "state", "http", "logs", "files", "supervisor", "bootstrap", "keylog"}
)
"""Sections that other sections use. With these alone, the daemon runs nothing but its status."""


@cache
def config_model() -> type[Config]:
    """Return the class of the whole configuration."""
    return compose(chain.from_iterable(capability.config_sections() for capability in CAPABILITIES))


@cache
def config_reader() -> ConfigReader:
    """Return the reader of configurations, which also runs the checks of all capabilities."""
    checks = [crosscheck.cross_problems, *(capability.cross_problems for capability in CAPABILITIES)]
    return ConfigReader(config_model(), tuple(checks))


def load_config(path: Path | None, environment: Mapping[str, str] | None = None) -> Config:
    """Return the configuration; raise ConfigError with the first problem and the number of the others."""
    return config_reader().load(path, environment)


def starts_nothing(config: Config) -> bool:
    """Whether every section that would make the daemon run something has its default."""
    return all(
        getattr(config, name) == field.get_default(call_default_factory=True)
        for name, field in type(config).model_fields.items()
        if name not in STARTS_NOTHING
    )
