"""What the driver tells while it runs: one JSON object after every batch, for metrics and people.

``started``, ``progress``, ``upkeep``, ``idle``, ``stopped``: the daemon reads them line by line from a pipe, so a line is whole or not there, and a
reader that has gone must not stop the stream.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from state.columns.slots import SlotState


if TYPE_CHECKING:
    from state.columns.slots import Layout
    from state.errors import TidelineError
    from streaming.batch.records import StagedBatch
    from streaming.upkeep.maintenance import UpkeepResult


ProgressListener = Callable[[Mapping[str, Any]], None]
"""Takes one event."""
StopReason = Literal["asked to", "nothing is left to read"]


def ignore_progress(event: Mapping[str, Any]) -> None:
    """Tell nobody."""


def write_lines_to(fd: int) -> ProgressListener:
    """Return a function that writes events to a file descriptor, one line each, until nobody reads them any more."""
    gone = False

    def tell(event: Mapping[str, Any]) -> None:
        nonlocal gone
        if gone:
            return
        line = json.dumps(event, separators=(",", ":")) + "\n"
        try:
            os.write(fd, line.encode())
        except OSError:
            gone = True  # the daemon went away; the stream does not

    return tell


def started_event(table: str, application: str) -> dict[str, Any]:
    """The session is up."""
    return {"event": "started", "table": table, "application": application}


def batch_event(
    done: StagedBatch,
    layout: Layout,
    lag: Mapping[int, int],
    upkeep: UpkeepResult,
    *,
    upkeep_s: float,
    batch_s: float,
) -> dict[str, Any]:
    """A batch is in the table. ``lag`` counts the records behind it, by partition of the topic."""
    states = [slot.state for slot in layout.slots]
    return {
        "event": "progress",
        "batchId": done.batch,
        **{name: done.counts.get(name, 0) for name in ("rows", "bytes", "malformed", "rescued", "misfits")},
        "dead_letters": {
            name: count
            for name, count in done.counts.items()
            if name not in {"rows", "bytes", "malformed", "rescued", "misfits"}
        },
        "hours": len(done.hours),
        "watermark": done.watermark.reached_s,
        "lag": {str(part): behind for part, behind in lag.items()},
        "columns": {
            "live": states.count(SlotState.LIVE),
            "empty": states.count(SlotState.EMPTY),
            "reused": sum(slot.former_name is not None for slot in layout.slots),
        },
        "layout_version": layout.version,
        "upkeep": asdict(upkeep),
        "seal_backlog": upkeep.backlog,
        "durations": {"upkeep_s": round(upkeep_s, 3), "batch_s": round(batch_s, 3)},
    }


def upkeep_event(upkeep: UpkeepResult) -> dict[str, Any]:
    """The table was kept while the source was silent."""
    return {"event": "upkeep", **asdict(upkeep)}


def idle_event() -> dict[str, Any]:
    """No batch is at hand and the table is kept: the driver lives and waits for its source."""
    return {"event": "idle"}


def stopped_event(why: StopReason | TidelineError) -> dict[str, Any]:
    """The run has ended: as it should, or with an error, whose code is the reason."""
    if isinstance(why, str):
        return {"event": "stopped", "reason": why}
    return {"event": "stopped", "reason": why.code, "message": str(why)[:2000]}
