"""What applies an event at its turn."""

from __future__ import annotations

import pytest

from handlers.events import PartitionsAdded
from handlers.replication.batch.batch_replay import Alone, Joined, Merged, OnTarget, Way, choose_way
from handlers.replication.batch.lanes import Done
from handlers.replication.batch.work_ahead import AppliedAhead
from tests.builders.replication.replay_events import partitions_added


EVENT = partitions_added(5, "orders", "1")
LATER = partitions_added(6, "orders", "2")
AHEAD = AppliedAhead([EVENT], Done(None, 0.1, 0.0))
JOINABLE = [EVENT, LATER]


@pytest.mark.parametrize(
    ("on_target", "is_merged", "ahead", "joinable", "way"),
    [
        (5, True, AHEAD, JOINABLE, OnTarget()),
        (4, True, AHEAD, JOINABLE, Merged()),
        (4, False, AHEAD, JOINABLE, AHEAD),
        (4, False, None, JOINABLE, Joined(JOINABLE)),
        (4, False, None, [], Alone()),
    ],
)
def test_an_event_is_applied_in_the_first_way_that_is_possible(
    on_target: int,
    is_merged: bool,
    ahead: AppliedAhead | None,
    joinable: list[PartitionsAdded],
    way: Way,
) -> None:
    assert choose_way(EVENT, on_target=on_target, is_merged=is_merged, ahead=ahead, joinable=joinable) == way
