"""Which events may be applied ahead of their turn: the order within each table is kept, and nothing crosses a
barrier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.events import Embedded, Event, TxnAborted, TxnCommitted, Undecodable, WriteIdsAllocated
from handlers.replication.batch.work_ahead import find_predecessors, may_run_ahead
from handlers.replication.policy.renames import find_names, find_rename
from handlers.structs import tjson
from handlers.structs.objects import Table
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
    partition_altered,
    partitions_added,
    partitions_dropped,
    statistics,
    with_object,
    written,
)


TABLES = ("a", "b", "c")
BEFORE: Mapping[int, tuple[str, ...]] = {1: ("a",), 2: ("a", "b")}
"""What transactions write into before the first event."""


def unreadable(at: int) -> Event:
    return Undecodable(
        event_id=at, time_s=0, kind="ALTER_TABLE", db="shop", error=MalformedEvent("unreadable")
    )


def build(at: int, kind: str, table: str, txn_id: int) -> Event:
    others = [each for each in TABLES if each != table]
    events: dict[str, Event] = {
        "add": partitions_added(at, table, str(at)),
        "alter": altered(at, table),
        "create": created(at, table),
        "drop": dropped(at, table),
        "rename": changed(at, a_table(table), a_table(others[txn_id % 2])),
        "allocate": allocated(at, txn_id, at, table),
        "commit": committed(at, txn_id),
        "abort": aborted(at, txn_id),
        "unreadable": unreadable(at),
    }
    return events[kind]


KINDS = ("add", "add", "alter", "create", "drop", "rename", "allocate", "commit", "abort", "unreadable")
HISTORIES = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from(TABLES), st.integers(1, 3)), max_size=14
).map(lambda drawn: [build(at, *each) for at, each in enumerate(drawn, 1)])


def list_tables(events: list[Event], place: int) -> frozenset[str]:
    """Return the tables that an event concerns, by looking at everything before it; all if it may concern
    any."""
    event = events[place]
    if isinstance(event, TxnCommitted | TxnAborted):
        if any(find_rename(each) for each in events[:place]):
            return frozenset(TABLES)
        own = [each for each in events[:place] if isinstance(each, WriteIdsAllocated)]
        return frozenset(BEFORE.get(event.txn_id, ())) | {
            each.table or "" for each in own if event.txn_id in {txn_id for txn_id, _ in each.pairs}
        }
    if event.table is None or find_rename(event):
        return frozenset(TABLES)
    return find_names(event)


@given(HISTORIES, st.data())
def test_in_whatever_order_lanes_work_the_order_of_each_table_is_kept(
    events: list[Event], data: st.DataObject
) -> None:
    """Replay applies one event after the other and records now and then. Lanes apply any later event that
    waits for nothing."""
    found = find_predecessors(events, lambda txn_id: BEFORE.get(txn_id, ()))
    order: list[int] = []
    recorded = 0
    for event in events:
        free = [
            each.event_id
            for each in events
            if each.event_id not in order and each.event_id > event.event_id
            if found.get(each.event_id, len(events)) <= recorded
        ]
        order += data.draw(st.permutations(free)) if data.draw(st.booleans()) else []
        order += [event.event_id] if event.event_id not in order else []
        recorded = event.event_id if data.draw(st.booleans()) else recorded
    for later in range(len(events)):
        for earlier in range(later):
            if list_tables(events, earlier) & list_tables(events, later):
                first, second = (events[place].event_id for place in (earlier, later))
                assert order.index(first) < order.index(second), (events[earlier], events[later])


@given(HISTORIES)
def test_everything_that_a_repetition_could_undo_is_recorded_before_an_event_runs_ahead(
    events: list[Event],
) -> None:
    """No event between the recorded position and the one that runs ahead concerns its table."""
    found = find_predecessors(events, lambda txn_id: BEFORE.get(txn_id, ()))
    for place, event in enumerate(events):
        if event.event_id in found:
            concerned = list_tables(events, place)
            before = [
                each.event_id for at, each in enumerate(events[:place]) if list_tables(events, at) & concerned
            ]
            assert found[event.event_id] == max(before, default=0)


def test_a_transaction_whose_tables_are_not_known_stops_all_tables() -> None:
    events = [committed(1, 7), created(2, "a")]
    assert find_predecessors(events, lambda _: None) == {2: 1}
    assert find_predecessors(events, lambda _: ()) == {2: 0}


PLAIN: Mapping[str, Any] = {"parameters": {"transactional": "false"}}


@pytest.mark.parametrize(
    "event",
    [
        created(1),
        with_object(dropped(1)),
        altered(1),
        with_object(partitions_added(1, "orders", "1")),
        with_object(partitions_dropped(1, "orders", "1")),
        with_object(partition_altered(1, "1")),
        with_object(statistics(1)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_changes_of_the_metadata_of_transactional_tables_may_run_ahead(event: Event) -> None:
    assert may_run_ahead(event)


@pytest.mark.parametrize(
    "event",
    [
        created(1, **PLAIN),
        dropped(1),
        with_object(dropped(1), **PLAIN),
        changed(1, a_table(), a_table("other")),
        altered(1, truncate=True),
        partitions_added(1, "orders", "1"),
        with_object(partitions_added(1, "orders", "1"), **PLAIN),
        with_object(partition_altered(1, "1", truncate=True)),
        allocated(1, 7, 1),
        written(1),
        committed(1),
        replace(created(1), after=Embedded("{", lambda text: tjson.decode(Table, text))),
    ],
    ids=lambda event: type(event).__name__,
)
def test_nothing_runs_ahead_that_concerns_files_or_names_or_cannot_be_read(event: Event) -> None:
    assert not may_run_ahead(event)
