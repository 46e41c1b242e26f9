"""The names of failpoints, read from the code, so that a test of all failpoints covers those that are added
later."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final


PROJECT: Final = Path(__file__).parents[3]
LOADING: Final = "handlers/replication/loading"


def find_failpoints(package: str, *prefixes: str) -> tuple[str, ...]:
    """Return the failpoints in the modules of ``package`` whose names begin with one of ``prefixes``,
    sorted."""
    found: set[str] = set()
    for module in (PROJECT / package).rglob("*.py"):
        found.update(re.findall(r'failpoint\("([^"]+)"\)', module.read_text()))
    return tuple(sorted(name for name in found if name.startswith(prefixes or "")))
