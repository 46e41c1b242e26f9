from __future__ import annotations

from handlers.events import Event, PartitionsDropped
from handlers.replication.transactions.coming_events import find_early_copies, select_lookahead_events
from tests.builders.replication.replay_events import (
    allocated,
    altered,
    committed,
    dropped,
    partitions_added,
    written,
)


def ahead(*events: Event, held: set[tuple[int, str, int]] | None = None) -> list[int]:
    held = {(1, "shop.orders", 1), (1, "shop.other", 1)} if held is None else held
    return [
        event.event_id
        for event in find_early_copies(select_lookahead_events(events), lambda *place: place in held)
    ]


def test_files_of_an_allocated_write_id_may_be_copied_early() -> None:
    assert ahead(altered(1), committed(2, 9), written(3)) == [3]


def test_files_of_a_write_id_that_is_not_allocated_yet_wait() -> None:
    assert ahead(allocated(1, 2, 2), written(2, txn_id=2, write_id=2)) == []


def test_files_wait_behind_events_that_may_move_their_table() -> None:
    assert ahead(altered(1, new_name="old_orders"), written(2)) == []
    assert ahead(altered(1, "older", new_name="orders"), written(2)) == []
    assert ahead(altered(1, truncate=True), written(2)) == []
    assert ahead(dropped(1), written(2)) == []


def test_files_wait_behind_a_drop_of_partitions_of_their_table() -> None:
    drop = PartitionsDropped(
        event_id=1, time_s=0, kind="DROP_PARTITION", db="shop", table="orders", owner=None, specs=()
    )
    assert ahead(drop, written(2), written(3, table="other")) == [3]


def test_new_partitions_and_parameters_are_no_barrier() -> None:
    assert ahead(partitions_added(1), altered(2), written(3)) == [3]


def test_events_of_another_table_are_no_barrier() -> None:
    assert ahead(dropped(1, "other"), written(2), written(3, table="other")) == [2]
