"""The settings: one YAML file and ``TIDELINE__SECTION__KEY`` variables, all of it checked before anything starts."""

from __future__ import annotations

from daemon.catalog.settings import CatalogConfig, FactConfig
from daemon.config.clusters import PolicyConfig, RelayConfig, SourceConfig
from daemon.config.load import Loaded, find_file, load_config, read_config
from daemon.config.model import Config, KafkaConfig
from daemon.config.problem import Problem


__all__ = [
    "CatalogConfig",
    "Config",
    "FactConfig",
    "KafkaConfig",
    "Loaded",
    "PolicyConfig",
    "Problem",
    "RelayConfig",
    "SourceConfig",
    "find_file",
    "load_config",
    "read_config",
]
