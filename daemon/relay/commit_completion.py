"""Completes a commit of which only some parts are in the topic, if it would now be split differently.

Readers have applied the first parts and expect as many as these announced. The missing ones become write events without files, and the
last part the commit without ``"enriched"``: a replica then fetches the write events from the source and copies what it does not have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from daemon.sources.outgoing_events import OutgoingEvent
from handlers.decoding.header import WRITE_KIND


if TYPE_CHECKING:
    from daemon.kafka.offset_search import LocatedRecord


_PROBLEM = "the commit was partly relayed, and would be split into other parts now"


def complete_commit(last: LocatedRecord, found: OutgoingEvent) -> OutgoingEvent | None:
    """Return the event whose first parts end with the topic's last record; None if the two are not of the same commit."""
    written, commit = orjson.loads(last.value), orjson.loads(found.records[-1].value)
    if not _is_of_commit(written, commit):
        return None
    part, parts = last.position.part, last.position.parts
    message = {name: value for name, value in commit["message"].items() if name not in {"enriched", "listed"}}
    end = commit | {"message": message | {"writeEventsProblem": _PROBLEM}}
    empty = written | {"message": written["message"] | {"files": []}}
    bodies = [written] * (part + 1) + [empty] * (parts - part - 2) + [end]
    model = found.records[-1]
    records = [
        replace(model, value=orjson.dumps(body | {"part": number, "parts": parts}))
        for number, body in enumerate(bodies)
    ]
    return OutgoingEvent(found.event_id, found.time_s, records, unread=True)


def _is_of_commit(written: Any, commit: Any) -> bool:
    """Return whether ``written`` is a write part of the transaction that ``commit`` ends."""
    if not isinstance(written, dict) or (written.get("eventType"), commit["eventType"]) != (
        WRITE_KIND,
        "COMMIT_TXN",
    ):
        return False
    mine, theirs = written.get("message"), commit["message"]
    return (
        isinstance(mine, dict)
        and isinstance(theirs, dict)
        and (mine.get("txnid"), written.get("eventTime")) == (theirs.get("txnid"), commit["eventTime"])
    )
