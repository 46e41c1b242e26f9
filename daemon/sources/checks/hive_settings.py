"""Durations in the settings of a Hive metastore."""

from __future__ import annotations

import re
from typing import Final, Protocol

from state.errors import TidelineError


_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_UNIT_ALIASES: Final = {"": "s", "sec": "s", "min": "m", "hour": "h", "day": "d", "msec": "ms"}


class HasSettings(Protocol):
    """A metastore that returns its settings."""

    def config_value(self, key: str, default: str = "") -> str:
        """Return a setting of the server."""


def read_seconds(metastore: HasSettings, key: str) -> float:
    """Return a duration of the server's settings; 0 if it is unreadable."""
    try:
        return duration_s(metastore.config_value(key))
    except TidelineError:
        return 0.0


def duration_s(text: str) -> float:
    """Read a Hive duration (``10d``, ``240h``, ``86400s``, ``300`` in seconds); 0 for anything else."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None:
        return 0.0
    unit = match[2].removesuffix("s") if len(match[2]) > 1 and match[2] != "ms" else match[2]
    seconds = _SECONDS.get(_UNIT_ALIASES.get(unit, unit), 0)
    return float(int(match[1]) * seconds)
