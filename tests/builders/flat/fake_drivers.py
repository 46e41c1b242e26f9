"""Fake drivers of flat tables without Spark: programs that write the events of a test, and those events."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any


_FRAME = """\
import json, os, signal, sys, time
fd = int(sys.argv[sys.argv.index("--progress-fd") + 1])
def tell(event): os.write(fd, (json.dumps(event) + "\\n").encode())
"""


def program(directory: Path, body: str) -> list[str]:
    """Write a driver that runs ``body``, in which ``tell(event)`` writes an event to ``fd``; return its
    command."""
    path = directory / "driver.py"
    path.write_text(_FRAME + textwrap.dedent(body))
    return [sys.executable, "-S", str(path)]


def progress(batch: int = 0, **changes: Any) -> dict[str, Any]:
    """Return the event of a batch."""
    event: dict[str, Any] = {
        "event": "progress",
        "batchId": batch,
        "rows": 100,
        "bytes": 5_000,
        "malformed": 1,
        "rescued": 2,
        "misfits": 3,
        "trailing": 0,
        "dead_letters": {"too-late": 4},
        "hours": 2,
        "watermark": 1_460_000_000,
        "lag": {"0": 7, "1": 0},
        "columns": {"live": 5, "empty": 1, "reused": 0},
        "layout_version": 9,
        "upkeep": {
            "sealed": 1,
            "backlog": 2,
            "rewrites_left": 0,
            "dropped": 0,
            "deleted": 0,
            "refused": "",
        },
        "seal_backlog": 2,
        "durations": {"upkeep_s": 0.5, "batch_s": 2.0},
    }
    return event | changes


def literal(event: dict[str, Any]) -> str:
    """Return an event as Python source for the body of a driver."""
    return f"json.loads({json.dumps(event)!r})"
