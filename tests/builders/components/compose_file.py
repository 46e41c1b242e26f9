"""The compose file of packaging/, as tests read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import yaml


COMPOSE: Final[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[3] / "packaging" / "compose.yaml").read_text()
)
SERVICES: Final[dict[str, Any]] = COMPOSE["services"]


def read_daemon_config() -> dict[str, Any]:
    """Return the daemon's configuration."""
    values: dict[str, Any] = yaml.safe_load(COMPOSE["configs"]["tideline"]["content"])
    return values


def read_hive_settings(side: str) -> dict[str, str]:
    """Return the settings of the metastore of "source" or "target"."""
    root = ET.fromstring(COMPOSE["configs"][f"{side}-hive"]["content"])  # noqa: S314 - our own file
    return {each.findtext("name", ""): each.findtext("value", "") for each in root}
