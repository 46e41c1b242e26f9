"""Lets a relay continue after a gap: events that the notification log lost before the relay read them.

The relay does not skip them on its own. On an operator's request it continues in the same topic, in four
steps:

1. Find the end of the topic; if it is empty, use the stored position.
2. Find the lost ids: all before the oldest event in the log, or up to the newest id if the log is empty.
3. Append one record that names them (``EVENTS_LOST``), and wait for its acknowledgement. Every reader that
   has not applied these events stops there with its own gap: policies wait for ``tideline gap policy
   POLICY``, catalogs load their tables again.
4. Store the position after the gap. A relay that is killed before this step finds the record at the end of
   the topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from daemon.kafka.offset_search import Records
from daemon.relay.publisher import Publisher
from daemon.relay.start_position import StoredPosition
from daemon.relay.topic_end import find_end
from daemon.sources.outbox import Outbox
from daemon.sources.outgoing_events import OutgoingEvent
from handlers.decoding.records.encoder import encode_lost
from handlers.failpoints import failpoint
from state.errors import BadInput, InvalidRequest
from state.event_log.positions import Position


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RelayGap:
    """The lost events of a source."""

    end: Position
    """The end of the topic before the gap."""
    lost: range

    def to_event(self, source: str) -> OutgoingEvent:
        """Return the record for the topic. It takes the place of the last part of the last lost event."""
        is_partial = not self.end.complete and self.end.event_id == self.lost[-1]
        part = self.end.part + 1 if is_partial else 0
        time_s = int(time.time())
        # The topic has the earlier parts, and a publisher omits records that the topic has.
        records = [encode_lost(source, self.lost, time_s, part)] * (part + 1)
        return OutgoingEvent(self.lost[-1], time_s, records)


@dataclass(frozen=True, slots=True)
class CrossedRelayGap:
    """The result of crossing a gap: the events after ``after`` up to ``upto`` are lost."""

    after: int
    upto: int


def find_gap(records: Records, outbox: Outbox, stored: StoredPosition, source: str) -> RelayGap:
    """Return the gap at the end of the topic (steps 1 and 2); raise InvalidRequest if there is none."""
    last = find_end(records, outbox, stored.load)
    end = last.position if last is not None else stored.load()
    lost = range(0) if end is None else outbox.find_lost(end.applied_event_id)
    if end is None or not lost:
        raise InvalidRequest(
            "the relay has no gap: the next event can be read, or does not exist yet",
            source=source,
            hint="Run 'tideline status' to see the problem of the relay.",
        )
    return RelayGap(end, lost)


def cross_gap(
    gap: RelayGap,
    outbox: Outbox,
    stored: StoredPosition,
    open_publisher: Callable[[Position], Publisher],
    source: str,
) -> CrossedRelayGap:
    """Write the record of the gap and store the position after it (steps 3 and 4)."""
    upto = gap.lost[-1]
    with closing(open_publisher(gap.end)) as publisher:
        publisher.publish([gap.to_event(source)])
        publisher.settle()
    failpoint("relay.gap-written")
    outbox.skip_to(upto)
    stored.save(Position(upto), look_back=0)  # transactions that began before are unknown
    log.error("lost events are skipped at an operator's request", source=source, first=gap.lost[0], last=upto)
    return CrossedRelayGap(gap.lost[0] - 1, upto)


def serve(request: dict[str, Any], cross: Callable[[], CrossedRelayGap]) -> dict[str, Any]:
    """Serve one request to a relay; raise BadInput for an unknown one."""
    if request.get("do") != "cross-gap":
        raise BadInput("unknown request", request=str(request)[:200])
    return asdict(cross())
