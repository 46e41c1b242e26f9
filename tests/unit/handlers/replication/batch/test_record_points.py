"""Between which events the position is recorded, so that a restart never repeats both."""

from __future__ import annotations

import pytest

from handlers.events import Event
from handlers.replication.batch.record_points import UnrecordedEvents
from handlers.replication.policy.renames import find_alterations
from tests.builders.replication.fake_target import FakedReplica
from tests.builders.replication.replay_events import (
    a_table,
    allocated,
    altered,
    changed,
    committed,
    created,
    dropped,
    partitions_added,
    partitions_dropped,
)


def is_recorded_between(*events: Event) -> bool:
    """Whether the position is recorded between the first events and the last one."""
    *earlier, last = events
    unrecorded = UnrecordedEvents()
    for event in earlier:
        unrecorded.add(event, find_alterations(event))
    return unrecorded.must_precede(last, find_alterations(last))


RENAMED = changed(2, a_table("a"), a_table("b"))


@pytest.mark.parametrize(
    "change", [created(2, "a"), dropped(2, "a"), RENAMED], ids=["create", "drop", "rename"]
)
def test_the_position_is_recorded_between_a_change_of_a_name_and_other_events_of_it(change: Event) -> None:
    assert is_recorded_between(partitions_added(1, "a", "1"), change)
    assert is_recorded_between(change, partitions_added(3, "a", "1"))
    assert not is_recorded_between(partitions_added(1, "c", "1"), change)
    assert not is_recorded_between(change, partitions_added(3, "c", "1"))


def test_the_position_is_recorded_after_a_rename_before_events_of_its_new_name() -> None:
    assert is_recorded_between(RENAMED, allocated(3, 7, 1, "b"))
    assert is_recorded_between(RENAMED, created(3, "a"))


def test_a_change_of_a_name_is_not_repeated_together_with_the_end_of_a_transaction() -> None:
    assert is_recorded_between(committed(1), dropped(2, "a"))
    assert not is_recorded_between(committed(1), altered(2, "a"))


def test_the_position_is_recorded_between_alterations_that_undo_each_other() -> None:
    assert is_recorded_between(altered(1, "a"), altered(2, "a"))
    assert is_recorded_between(partitions_added(1, "a", "1"), partitions_dropped(2, "a", "1"))
    assert not is_recorded_between(altered(1, "a"), altered(2, "b"))


def test_a_record_ends_the_repetition_of_what_came_before() -> None:
    unrecorded = UnrecordedEvents()
    unrecorded.add(created(1, "a"), frozenset())
    unrecorded.clear()
    assert not unrecorded.must_precede(dropped(2, "a"), frozenset())


def test_tables_that_are_created_one_after_the_other_need_no_record_in_between(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[int] = []
    recorded = replica.projection._recorded
    record = recorded.record

    def count() -> None:
        records.append(recorded.current.event_id)
        record()

    monkeypatch.setattr(recorded, "record", count)
    replica.projection.apply([created(number, f"t{number}") for number in range(1, 11)])
    assert set(records) == {10}, "at the end of the batch only"
