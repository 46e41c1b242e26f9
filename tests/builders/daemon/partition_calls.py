"""The calls about partitions that a daemon makes to its source's metastore, and the requests that wait."""

from __future__ import annotations

import re
from pathlib import Path

from tests.builders.daemon.http_client import asked, told_port


def partition_calls(state_dir: Path) -> dict[str, float]:
    """Return how often each call about partitions was made to the source's metastore.

    The relay makes others, and so does the catalog while it lists the tables of all databases.
    """
    text = asked(told_port(state_dir), "/metrics").text
    row = r'^tideline_metastore_call_seconds_count\{call="([^"]+)",cluster="lake"\} (\S+)$'
    calls = {name: float(number) for name, number in re.findall(row, text, re.MULTILINE)}
    return {name: number for name, number in calls.items() if "partition" in name}


def has_waits(state_dir: Path) -> bool:
    """Whether exactly one request waits."""
    return "\ntideline_waits 1.0\n" in asked(told_port(state_dir), "/metrics").text
