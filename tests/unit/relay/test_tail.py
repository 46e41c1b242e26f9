"""The steady state of a relay, with parts that fail on request."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

from daemon.relay.settings import RelaySettings, RelayStatus
from daemon.relay.start_position import Start
from daemon.relay.tail import Pace, Tail
from state.errors import FilesUnavailable
from state.positions import Position
from tests.builders.kafka.fake_log import ListedLog
from tests.builders.kafka.fake_topics import outbox


if TYPE_CHECKING:
    from daemon.relay.publisher import Publisher
    from daemon.relay.start_position import StoredPosition


class FullDisk:
    """A stored position that cannot be written."""

    def __init__(self) -> None:
        self.tries = 0

    def save(self, _position: Position, _look_back: int) -> None:
        """Fail."""
        self.tries += 1
        raise FilesUnavailable("the disk of the state file is full")


class AcknowledgingPublisher:
    """A publisher whose records are acknowledged at once."""

    pending = 0
    records = 0
    size_bytes = 0

    def __init__(self) -> None:
        self.acknowledged = Position(7)

    def settle(self) -> None:
        """Do nothing: nothing is on its way."""


class StoppedHeartbeat:
    """A heartbeat that requests a stop from the beginning."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.stopping.set()

    def beat(self) -> None:
        """Ignore it."""

    def following(self) -> None:
        """Ignore it."""

    def progress(self) -> None:
        """Ignore it."""


def test_a_full_state_disk_does_not_stop_the_relay_of_a_source() -> None:
    stored, publisher, statuses = FullDisk(), AcknowledgingPublisher(), list[RelayStatus]()
    tail = Tail(
        outbox(ListedLog()),
        cast("Publisher", publisher),
        cast("StoredPosition", stored),
        RelaySettings(source="lake"),
        Start(Position(5)),
        statuses.append,
        RelayStatus("lake", "topic"),
        threading.Event(),
    )
    heartbeat: Any = StoppedHeartbeat()
    tail.follow(heartbeat)
    assert stored.tries == 1
    assert statuses[-1].relayed == Position(7), "what is in the topic counts"


def test_pauses_double_to_their_bound_and_are_reset_by_work() -> None:
    pace = Pace(0.01, 0.2)
    assert [pace.pause_s() for _ in range(7)] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.2, 0.2]
    pace.busy()
    assert pace.pause_s() == 0.01
