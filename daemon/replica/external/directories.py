"""Reads the list of a policy's external directories, which each cycle writes, with their target paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from daemon.config.model import Config
from daemon.config.settings.policies import PolicyConfig
from daemon.replica.external.policy_cycles import list_directory
from handlers.replication.external.cycle import DIRECTORY_LIST
from handlers.replication.policy.locations import place_below
from state.errors import NotFound, UnsafePath
from state.external.directories import parse_directories


def read_directories(config: Config, policy: str, path: Path | None) -> list[dict[str, Any]]:
    """Return the directories of a list; raise NotFound if no cycle has written one, and BadInput."""
    path = path or list_directory(config, policy) / DIRECTORY_LIST
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise NotFound(
            "there is no list of external tables yet",
            path=str(path),
            hint="The daemon writes it at the start of each cycle, if the policy has an external_base. "
            "Run this on its machine.",
        ) from None
    settings = config.policy(policy)
    return [
        {"table": f"{settings.database}.{table}", "source": source, "target": _find_target(settings, source)}
        for table, source in parse_directories(text)
    ]


def _find_target(policy: PolicyConfig, source: str) -> str | None:
    """Return the directory on the target; None without ``external_base``, or for a refused location."""
    if policy.external_base is None:
        return None
    try:
        return place_below(policy.external_base, source)
    except UnsafePath:
        return None
