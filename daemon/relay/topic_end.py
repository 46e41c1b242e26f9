"""Finds the end of a topic: the newest record that its relay can have written.

That is usually the last one. But another program may have written records after it. A relay that took such a
record for the end would stop, or relay everything again. So it chooses, among the last records, the highest
position that the metastore knows. A relay writes each record after all events before it, so the topic has all
events up to that position.

Records above the newest event of the metastore have one of two causes. Either the metastore comes from a
backup; then they continue the topic event by event, and the relay must stop. Or they are foreign
(``daemon.consumer.log_check``). The relay skips such records only if none of them continues the topic, and
only above its own stored position.

With signatures, ``records`` contains only the relay's records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import structlog

from daemon.kafka.offset_search import LocatedRecord, Records, find_last
from daemon.sources.outbox import Outbox
from state.event_log.positions import Position


log = structlog.get_logger(__name__)

_LOOK_BACK: Final = 50
"""Offsets at the end of the topic in which to look for the highest position."""


def find_end(
    records: Records, outbox: Outbox, load_position: Callable[[], Position | None]
) -> LocatedRecord | None:
    """Return the newest record of the topic, ignoring foreign records; None if the topic is empty.

    ``load_position`` returns the relay's stored position; called only if records are above the metastore's
    newest event. Raises Transient, StateCorrupt.
    """
    last = find_last(records)
    if last is None:
        return None
    upto = outbox.current_event_id()
    if last.position.event_id > upto and (written := load_position()) is not None:
        upto = max(upto, written.event_id)
    tail = [
        record
        for record in _records(records, last.offset - _LOOK_BACK, last.offset + 1)
        if record.position.event_id <= upto
    ]
    known = max(tail, key=lambda record: record.position) if tail else find_last(records, upto=upto)
    if known is None or known.offset == last.offset:
        return last
    for record in _records(records, known.offset + 1, last.offset + 1):
        if (record.position.event_id, record.position.part) == known.position.expected():
            return record
    log.warning(
        "records at the end of the topic are foreign or repeated; the relay continues before them",
        offset=known.offset,
        event_id=known.position.event_id,
        last_event_id=last.position.event_id,
    )
    return known


def _records(records: Records, start: int, end: int) -> Iterator[LocatedRecord]:
    at = max(start, records.watermarks().low)
    while (record := records.first_from(at, end)) is not None:
        yield record
        at = record.offset + 1
