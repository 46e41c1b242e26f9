"""Which changes of a table during its load make the load start again."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.events import Event, Inserted, PartitionsDropped, Undecodable
from handlers.replication.loading.table.source_changes import (
    SourceChanges,
    concerns_table,
    find_disruption,
    find_lowest_allocation,
    find_replacement,
)
from handlers.replication.policy.policy import Policy
from handlers.structs.notifications import NotificationEvent
from state.errors import GapDetected, MalformedEvent
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import (
    a_table,
    allocated,
    altered,
    changed,
    created,
    dropped,
    partitions_added,
    statistics,
)


POLICY = Policy(name="shop", source_db="shop", target_db="shop_r")


def inserted(event_id: int, *, replace: bool | None) -> Inserted:
    return Inserted(
        event_id=event_id,
        time_s=0,
        kind="INSERT",
        db="shop",
        table="orders",
        owner=None,
        partition=None,
        spec=None,
        replace=replace,
        files=(),
    )


def undecodable(event_id: int, table: str | None) -> Undecodable:
    return Undecodable(
        event_id=event_id, time_s=0, kind="X", db="shop", table=table, error=MalformedEvent("broken")
    )


DISRUPTIONS: list[Event] = [
    dropped(5),
    created(5),
    altered(5, new_name="bought"),
    altered(5, truncate=True),
    inserted(5, replace=True),
    inserted(5, replace=None),
    undecodable(5, "orders"),
    PartitionsDropped(
        event_id=5, time_s=0, kind="DROP_PARTITION", db="shop", table="orders", owner=None, specs=()
    ),
    changed(5, a_table(parameters={}), a_table()),
]


@pytest.mark.parametrize("event", DISRUPTIONS, ids=lambda event: f"{event.kind}")
def test_an_event_that_removes_rows_disrupts_a_load(event: Event) -> None:
    assert find_disruption([altered(4), event]) is not None


def test_events_that_can_be_replayed_on_top_do_not() -> None:
    harmless = [
        altered(1),
        partitions_added(2),
        statistics(3),
        inserted(4, replace=False),
        allocated(5, 1, 1),
    ]
    assert find_disruption(harmless) is None


def test_only_drops_creations_and_renames_give_the_name_to_another_table() -> None:
    assert find_replacement([altered(1), altered(2, truncate=True), inserted(3, replace=True)]) is None
    assert find_replacement([dropped(1)]) is not None
    assert find_replacement([altered(1, new_name="bought")]) is not None


def test_a_rename_concerns_both_names_and_a_broken_event_without_a_table_every_table() -> None:
    move = altered(1, new_name="bought")
    assert concerns_table(move, POLICY, "orders")
    assert concerns_table(move, POLICY, "bought")
    assert not concerns_table(move, POLICY, "other")
    assert concerns_table(undecodable(1, None), POLICY, "other")
    assert not concerns_table(undecodable(1, "orders"), POLICY, "other")


def test_the_lowest_allocated_write_id_is_found() -> None:
    assert find_lowest_allocation([allocated(1, 9, 8), allocated(2, 8, 7), altered(3)]) == 7
    assert find_lowest_allocation([altered(3)]) is None


def test_purged_events_are_a_gap() -> None:
    def next_events(after: int, _limit: int) -> list[Any]:
        return [NotificationEvent(eventId=after + 2, eventTime=0, eventType="DROP_TABLE", message="{}")]

    source: Any = RecordingMetastore({"next_events": next_events})
    with pytest.raises(GapDetected):
        SourceChanges(source, POLICY, "orders", 7).read_new()
