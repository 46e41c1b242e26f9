"""The last events as rows: newest first, by table and transaction, with what they changed."""

from __future__ import annotations

from daemon.consumer.settings import SharingSettings
from daemon.consumer.shared.window import EventWindow, SharedEvent
from daemon.site.recent_events import ROWS_MAX, find_recent
from handlers.events import Event, EventsLost, TxnsOpened, Undecodable
from state.errors import MalformedEvent
from state.event_log.positions import Position
from tests.builders.replication.replay_events import (
    aborted,
    allocated,
    committed,
    created,
    dropped,
    partitions_added,
    partitions_dropped,
    written,
)


def kept(*events: Event) -> list[SharedEvent]:
    """Return the events as the shared reader keeps them."""
    window = EventWindow(Position(0), SharingSettings())
    window.append(events, [100] * len(events))
    return window.events()


def test_a_transaction_is_found_from_its_begin_to_its_end() -> None:
    events = kept(
        TxnsOpened(event_id=1, time_s=1, kind="OPEN_TXN", first=6, last=8),
        allocated(2, 7, 3),
        allocated(3, 9, 4),
        written(4, txn_id=7, write_id=3),
        committed(5, 7),
        aborted(6, 9),
    )
    found = find_recent(events, txn_id=7)
    assert [(row.event_id, row.kind) for row in found.rows] == [
        (5, "COMMIT_TXN"),
        (4, "WRITE"),
        (2, "ALLOC_WRITE_ID_EVENT"),
        (1, "OPEN_TXN"),
    ]
    assert [row.txns for row in found.rows] == ["7", "7", "7", "6 to 8"]
    assert found.rows[1].details.startswith("write id 3: ")
    assert (found.searched, found.first_event_id) == (6, 1)


def test_a_table_or_a_database_is_found_and_the_rows_say_what_changed() -> None:
    events = kept(
        created(1),
        partitions_added(2, "orders", "1", "2", "3", "4"),
        partitions_dropped(3, "orders", "1"),
        dropped(4, "visits"),
        Undecodable(event_id=5, time_s=5, kind="?", db="shop", table="orders", error=MalformedEvent("cut")),
        EventsLost(event_id=6, time_s=6, kind="LOST", first_event_id=6),
    )
    orders = find_recent(events, table="shop.orders")
    assert [row.event_id for row in orders.rows] == [5, 3, 2, 1]
    assert [row.details for row in orders.rows][1:3] == ["1 partition: dt=1", "4 partitions"]
    assert "cut" in orders.rows[0].details
    assert [row.event_id for row in find_recent(events, table="shop").rows] == [5, 4, 3, 2, 1]
    assert find_recent(events).rows[0].details == "events from 6 were lost"


def test_a_long_list_is_cut_and_an_empty_one_says_what_was_searched() -> None:
    events = kept(*(created(number, f"t{number}") for number in range(1, 1_000)))
    assert len(find_recent(events).rows) == ROWS_MAX
    assert find_recent(events, table="shop.none").searched == 999
    assert find_recent([]).first_event_id is None
