"""Which allocations of a batch are known ahead, and behind which events they wait."""

from __future__ import annotations

import pytest

from handlers.events import Event, Undecodable, WriteIdsAllocated
from handlers.replication.transactions.coming_events import (
    EVENTS_MAX,
    WriteIdOfTxn,
    find_coming_allocations,
)
from state.errors import MalformedEvent
from tests.builders.replication.replay_events import (
    a_table,
    aborted,
    allocated,
    altered,
    changed,
    committed,
    created,
    dropped,
    partitions_added,
    partitions_dropped,
    statistics,
    written,
)


def every(event: WriteIdsAllocated) -> list[WriteIdOfTxn]:
    return [WriteIdOfTxn(*pair) for pair in event.pairs]


def coming(*events: Event) -> list[tuple[str, int]]:
    """Return table and write id of the allocations that are known ahead."""
    return [(each.table, each.pair.write_id) for each in find_coming_allocations(events, every)]


@pytest.mark.parametrize(
    "between",
    [
        committed(2),
        aborted(2),
        written(2),
        altered(2),
        partitions_added(2, "orders", "1"),
        partitions_dropped(2, "orders", "1"),
        statistics(2),
        created(2, "other"),
        dropped(2, "other"),
        changed(2, a_table("other"), a_table("another")),
    ],
    ids=lambda event: f"{type(event).__name__} of {event.table}",
)
def test_events_that_leave_the_table_as_it_is_may_lie_between(between: Event) -> None:
    assert coming(allocated(1, 1, 1), between, allocated(3, 2, 2)) == [("orders", 1), ("orders", 2)]


@pytest.mark.parametrize(
    "between",
    [
        created(2),
        dropped(2),
        altered(2, truncate=True),
        changed(2, a_table("orders"), a_table("old")),
        changed(2, a_table("new"), a_table("orders")),
        changed(2, a_table(), a_table(partition_columns=("dt",))),
        changed(2, a_table(), a_table(location="file:/elsewhere")),
        changed(2, a_table(), a_table(parameters={})),
        changed(2, a_table(), a_table(parameters={"transactional": "true", "tideline.replicate": "false"})),
        Undecodable(
            event_id=2, time_s=0, kind="ALTER_TABLE", db="shop", table="orders", error=MalformedEvent("")
        ),
    ],
    ids=lambda event: f"{type(event).__name__} of {event.table}",
)
def test_write_ids_wait_behind_events_that_may_change_which_table_they_belong_to(between: Event) -> None:
    events = (allocated(1, 1, 1), between, allocated(3, 2, 2), allocated(4, 3, 1, "other"))
    assert coming(*events) == [("orders", 1), ("other", 1)]


def test_everything_waits_behind_an_event_whose_table_is_not_known() -> None:
    unknown = Undecodable(event_id=2, time_s=0, kind="ALTER_TABLE", db="shop", error=MalformedEvent(""))
    assert coming(allocated(1, 1, 1), unknown, allocated(3, 2, 2, "other")) == [("orders", 1)]


def test_a_write_id_that_replaces_one_of_the_same_transaction_waits() -> None:
    events = (allocated(1, 1, 1), allocated(2, 2, 2), allocated(3, 1, 3), allocated(4, 3, 4))
    assert coming(*events) == [("orders", 1), ("orders", 2)]


def test_a_transaction_has_a_write_id_in_each_table() -> None:
    assert coming(allocated(1, 1, 1), allocated(2, 1, 1, "other")) == [("orders", 1), ("other", 1)]


def test_a_long_batch_is_not_read_to_its_end() -> None:
    events = [allocated(at, at, at) for at in range(1, EVENTS_MAX + 50)]
    assert len(coming(*events)) == EVENTS_MAX
