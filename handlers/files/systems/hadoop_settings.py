"""Hadoop's settings of HDFS clients,
read from a configuration directory for processes on machines that lack its files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from state.errors import ConfigError


FILES: Final = ("core-site.xml", "hdfs-site.xml")
"""In this order; a later file takes precedence."""
CONF_DIR: Final = "HADOOP_CONF_DIR"
_HOME: Final = "HADOOP_HOME"
_PREFIXES: Final = (
    "dfs.",
    "fs.defaultFS",
    "fs.viewfs.",
    "hadoop.rpc.protection",
    "hadoop.security.authentication",
    "hadoop.security.key.provider.path",
)
"""Names of the settings that a client of HDFS uses. Others may contain secrets, such as keys of object
stores."""


def find_configuration(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the directory that clients of HDFS read in this environment; None if there is none."""
    if directory := environment.get(CONF_DIR):
        return Path(directory)
    if home := environment.get(_HOME):
        return Path(home) / "etc" / "hadoop"
    return None


def read_hadoop_settings(directory: Path) -> dict[str, str]:
    """Return the settings of clients of HDFS; a missing file has none. Raises ConfigError for an unreadable
    file.
    """
    settings: dict[str, str] = {}
    for name in FILES:
        settings |= read_site(directory / name)
    return {name: value for name, value in settings.items() if name.startswith(_PREFIXES)}


def read_site(path: Path) -> dict[str, str]:
    """Return all settings of one of Hadoop's files; a missing file has none. Raises ConfigError if it is
    unreadable.
    """
    try:
        root = ET.parse(path).getroot()  # noqa: S314 - the operator's own file
    except FileNotFoundError:
        return {}
    except (OSError, ET.ParseError) as error:
        raise ConfigError(
            "a file of Hadoop's configuration cannot be read",
            path=str(path),
            reason=str(error),
            hint="Correct the file, or give the daemon's user access to it.",
        ) from error
    return {each.findtext("name", "").strip(): each.findtext("value", "").strip() for each in root}
