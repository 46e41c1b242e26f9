"""The steady state of a relay, with parts that fail on request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import pytest

from daemon.relay.publisher import Publisher, RelaySettings
from daemon.relay.start_position import Start, StoredPosition
from daemon.relay.tail import Pace, Tail
from daemon.sources.outgoing_events import OutgoingEvent
from daemon.status.model import SourceStatus
from state.errors import FilesUnavailable, GapDetected, MetastoreUnavailable
from state.event_log.positions import Position
from state.store.memory import MemoryStore
from tests.builders.kafka.fake_log import Line, ListedLog, ddl
from tests.builders.kafka.fake_topics import outbox, relay_settings


class FullDisk:
    """A stored position that cannot be written."""

    def __init__(self) -> None:
        self.tries = 0

    def save(self, _position: Position, _look_back: int, _scanned: Collection[str]) -> None:
        """Fail."""
        self.tries += 1
        raise FilesUnavailable("the disk of the state file is full")


class AcknowledgingPublisher:
    """A publisher whose records are acknowledged at once."""

    pending = 0
    records = 0
    size_bytes = 0

    def __init__(self, acknowledged: int = 7) -> None:
        self.acknowledged = Position(acknowledged)

    def publish(self, batch: Sequence[OutgoingEvent]) -> None:
        """Acknowledge all of it."""
        self.acknowledged = Position(batch[-1].event_id)

    def settle(self) -> None:
        """Do nothing: nothing is on its way."""


class StoppedHeartbeat:
    """A heartbeat that requests a stop from the beginning."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.stopping.set()

    def beat(self) -> None:
        """Ignore it."""

    def answered(self) -> None:
        """Ignore it."""

    def following(self) -> None:
        """Ignore it."""

    def progress(self) -> None:
        """Ignore it."""


def test_a_full_state_disk_does_not_stop_the_relay_of_a_source() -> None:
    stored, publisher, statuses = FullDisk(), AcknowledgingPublisher(), list[SourceStatus]()
    tail = Tail(
        outbox(ListedLog()),
        cast("Publisher", publisher),
        cast("StoredPosition", stored),
        RelaySettings(source="lake"),
        Start(Position(5)),
        statuses.append,
        SourceStatus("lake"),
        threading.Event(),
    )
    heartbeat: Any = StoppedHeartbeat()
    tail.follow(heartbeat)
    assert stored.tries == 1
    assert statuses[-1].relayed_event_id == 7, "what is in the topic counts"


def follow(
    log: ListedLog, status: SourceStatus, report: Callable[[SourceStatus], None], heartbeat: Any
) -> None:
    """Tail ``log`` from its first event, one event at a time."""
    tail = Tail(
        outbox(log, batch_events=1),
        cast("Publisher", AcknowledgingPublisher(0)),
        StoredPosition(MemoryStore(), "topic"),
        relay_settings(source="lake", poll_min_s=0.001, poll_max_s=0.001),
        Start(Position(0)),
        report,
        status,
        threading.Event(),
    )
    tail.follow(heartbeat)


def behind(status: SourceStatus) -> int:
    return (status.current_event_id or 0) - (status.relayed_event_id or 0)


def test_a_relay_that_is_behind_knows_how_far_the_source_is_from_its_first_batch_on() -> None:
    log, statuses, heartbeat = ListedLog(ddl(number) for number in range(1, 51)), list[SourceStatus](), Line()

    def report(status: SourceStatus) -> None:
        statuses.append(status)
        if behind(status) == 0:
            heartbeat.stopping.set()

    follow(log, SourceStatus("lake"), report, heartbeat)
    assert [behind(status) for status in statuses[:3]] == [48, 47, 46]
    assert {status.current_event_id for status in statuses} == {50}
    assert all(status.read_s is not None for status in statuses)


def test_a_relay_that_cannot_read_its_source_keeps_what_it_knew() -> None:
    log, statuses = ListedLog([ddl(1)]), list[SourceStatus]()
    log.failing = lambda _: MetastoreUnavailable("down")
    before = SourceStatus("lake", current_event_id=90, read_s=7.0)
    with pytest.raises(MetastoreUnavailable):
        follow(log, before, statuses.append, Line())
    assert (statuses[-1].current_event_id, statuses[-1].read_s) == (90, 7.0)


def test_a_relay_at_a_gap_knows_how_far_the_source_is() -> None:
    log, statuses = ListedLog(ddl(number) for number in range(1, 51)), list[SourceStatus]()
    log.clean(up_to=20)
    with pytest.raises(GapDetected):
        follow(log, SourceStatus("lake"), statuses.append, Line())
    assert behind(statuses[-1]) == 50


def test_pauses_double_to_their_bound_and_are_reset_by_work() -> None:
    pace = Pace(0.01, 0.2)
    assert [pace.pause_s() for _ in range(7)] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.2, 0.2]
    pace.busy()
    assert pace.pause_s() == 0.01
