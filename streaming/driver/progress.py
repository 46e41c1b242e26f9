"""Progress events of a driver: one JSON object after every batch, for metrics and status.

The events are ``started``, ``progress``, ``upkeep``, ``idle`` and ``stopped``. The daemon reads them line by
line from a pipe, so the driver writes a line completely or not at all, and the end of the reader does not
stop the stream.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Literal

from state.columns.slots import SlotState


if TYPE_CHECKING:
    from state.columns.slots import Layout
    from state.errors import TidelineError
    from streaming.batch.records import StagedBatch
    from streaming.upkeep.maintenance import UpkeepResult


ProgressListener = Callable[[Mapping[str, Any]], None]
"""Receives one event."""
StopReason = Literal["stop requested", "source exhausted"]
_COUNTS: Final = ("rows", "bytes", "malformed", "trailing", "rescued", "misfits")
"""Counts of a batch except its dead letters."""
STOP_REQUESTED: Final = "stop requested"
SOURCE_EXHAUSTED: Final = "source exhausted"


def ignore_progress(event: Mapping[str, Any]) -> None:
    """Ignore an event."""


def write_lines_to(fd: int) -> ProgressListener:
    """Return a listener that writes each event as a line to a file descriptor, until the reader has closed
    it.
    """
    gone = False

    def write(event: Mapping[str, Any]) -> None:
        nonlocal gone
        if gone:
            return
        line = json.dumps(event, separators=(",", ":")) + "\n"
        try:
            os.write(fd, line.encode())
        except OSError:
            gone = True  # the daemon has gone; the stream continues

    return write


def started_event(table: str, application: str) -> dict[str, Any]:
    """Return the event of a started session."""
    return {"event": "started", "table": table, "application": application}


def batch_event(
    batch: StagedBatch,
    layout: Layout,
    lag: Mapping[int, int],
    upkeep: UpkeepResult,
    *,
    upkeep_s: float,
    batch_s: float,
    key_log_failure: str = "",
) -> dict[str, Any]:
    """Return the event of a completed batch.

    ``lag`` is the number of unread records by partition of the topic, ``key_log_failure`` the reason why
    reading requested keys, or storing a snapshot, failed.
    """
    states = [slot.state for slot in layout.slots]
    return {
        "event": "progress",
        "batchId": batch.batch,
        **{name: batch.counts.get(name, 0) for name in _COUNTS},
        "dead_letters": {name: count for name, count in batch.counts.items() if name not in _COUNTS},
        "hours": len(batch.hours),
        "watermark": batch.watermark.reached_s,
        "lag": {str(part): behind for part, behind in lag.items()},
        "columns": {
            "live": states.count(SlotState.LIVE),
            "empty": states.count(SlotState.EMPTY),
            "reused": sum(slot.former_name is not None for slot in layout.slots),
        },
        "layout_version": layout.version,
        "upkeep": _describe_upkeep(upkeep),
        "seal_backlog": upkeep.backlog,
        "durations": {"upkeep_s": round(upkeep_s, 3), "batch_s": round(batch_s, 3)},
        **({"key_log_failure": key_log_failure[:500]} if key_log_failure else {}),
    }


def upkeep_event(upkeep: UpkeepResult) -> dict[str, Any]:
    """Return the event of maintenance while the source was silent."""
    return {"event": "upkeep", **_describe_upkeep(upkeep)}


def _describe_upkeep(upkeep: UpkeepResult) -> dict[str, Any]:
    """Return the counts without the list of open hours, which may be long. Only the commands show it."""
    return {name: value for name, value in asdict(upkeep).items() if name != "open"}


def report_rewrites(progress: ProgressListener) -> Callable[[str, int, int, int], None]:
    """Return a listener that reports each rewritten hour as an event.

    From the second hour of a pass on, the event has an estimate of the remaining time.
    """
    began_s = time.monotonic()

    def report(activity: str, hour: int, done: int, total: int) -> None:
        nonlocal began_s
        now_s = time.monotonic()
        if done == 1:
            began_s = now_s
        left_s = None if done == 1 else round((now_s - began_s) / (done - 1) * (total - done), 1)
        progress(
            {
                "event": "rewritten",
                "activity": activity,
                "hour": hour,
                "done": done,
                "total": total,
                "left_s": left_s,
            }
        )

    return report


def idle_event(lag: Mapping[int, int]) -> dict[str, Any]:
    """Return the event of a driver that waits for its source, with the same ``lag`` as in ``batch_event``.

    Records of an open transaction wait until it ends, so a silent stream may have a lag.
    """
    return {"event": "idle", "lag": {str(part): behind for part, behind in lag.items()}}


def stopped_event(why: StopReason | TidelineError) -> dict[str, Any]:
    """Return the event of the end of a run, with the reason; for an error the reason is its code."""
    if isinstance(why, str):
        return {"event": "stopped", "reason": why}
    return {"event": "stopped", "reason": why.code, "message": str(why)[:2000]}
