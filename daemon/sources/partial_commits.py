"""Completes commits of which the topic has only the first parts, and whose other parts would now be
different.

The parts of a commit that come from listings depend on the directories at that time. A later compaction or
DROP PARTITION changes them, so that the missing parts cannot be made again. The replacement parts make
replicas fetch the write events from the source or, if the source does not report them, load the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from daemon.kafka.offset_search import LocatedRecord
from daemon.sources.outgoing_events import OutgoingEvent
from handlers.decoding.header import WRITE_KIND
from handlers.decoding.records.record_writer import Record


_PROBLEM: Final = "the commit was relayed in part, and would now be split differently"
_PARTLY_READ: Final = "the topic has lost a part of the commit, which would now be split differently"
_MARKS: Final = frozenset({"enriched", "listed", "unreported"})
_COMMIT: Final = "COMMIT_TXN"


def complete_commit(last: LocatedRecord, event: OutgoingEvent) -> OutgoingEvent | None:
    """Return an event that completes the commit whose first parts end with the topic's last record.

    None if they belong to different commits. Readers have applied the first parts, and expect the announced
    number of parts. The missing parts become write events without files, and the last part becomes the commit
    without ``"enriched"``: a replica then fetches the write events from the source and copies the files that
    it lacks or, if the source does not report them, loads the tables.
    """
    written, commit = orjson.loads(last.value), orjson.loads(event.records[-1].value)
    if not _is_of_commit(written, commit):
        return None
    part, parts = last.position.part, last.position.parts
    end = _without_writes(commit, _PROBLEM)
    empty = written | {"message": written["message"] | {"files": []}}
    bodies = [written] * (part + 1) + [empty] * (parts - part - 2) + [end]
    model = event.records[-1]
    records = [
        replace(model, value=orjson.dumps(body | {"part": number, "parts": parts}))
        for number, body in enumerate(bodies)
    ]
    return OutgoingEvent(event.event_id, event.time_s, records, unread=True)


def end_commit(event: OutgoingEvent) -> Sequence[Record]:
    """Return the records that complete an event whose first parts a reader has. These are all records of the
    event; the reader skips those that it has. For a commit whose parts come from listings, this is only the
    commit itself, and replicas load the tables.
    """
    model = event.records[-1]
    commit = orjson.loads(model.value)
    if commit["eventType"] != _COMMIT or not _is_unreported(commit):
        return event.records
    end = _without_writes(commit, _PARTLY_READ) | {"part": 0, "parts": 1}
    return [replace(model, value=orjson.dumps(end))]


def _without_writes(commit: Any, problem: str) -> Any:
    """Return the body of a commit with the reason why it has no write events."""
    message = {name: value for name, value in commit["message"].items() if name not in _MARKS}
    reason = "incomplete" if _is_unreported(commit) else "writeEventsProblem"
    return commit | {"message": message | {reason: problem}}


def _is_unreported(commit: Any) -> bool:
    """Whether the source does not report write events, so that the relay lists all of them."""
    return isinstance(commit["message"], dict) and bool(commit["message"].get("unreported"))


def _is_of_commit(written: Any, commit: Any) -> bool:
    """Return whether ``written`` is a write part of the transaction that ``commit`` ends."""
    if not isinstance(written, dict) or (written.get("eventType"), commit["eventType"]) != (
        WRITE_KIND,
        _COMMIT,
    ):
        return False
    mine, theirs = written.get("message"), commit["message"]
    return (
        isinstance(mine, dict)
        and isinstance(theirs, dict)
        and (mine.get("txnid"), written.get("eventTime")) == (theirs.get("txnid"), commit["eventTime"])
    )
